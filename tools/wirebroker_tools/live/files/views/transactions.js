// The state of each transactional id, and for how long its transaction has been open.

import { commands, quoted } from "../commands.js";
import { empty, h, table, time } from "../dom.js";
import { Walk } from "../feed.js";

const MOST = 200; // changes that are shown

export function open({ feed, ask }) {
  const element = h("div", { class: "pad" });
  let held = [], changes, servers = "", now = 0;
  const walk = new Walk(feed, () => { changes = []; }, (row) => {
    if (row.event !== "transaction") return false;
    changes.push(row);
    if (changes.length > MOST) changes.shift();
    return true;
  });

  function draw() {
    const parts = [];
    if (held.length) {
      parts.push(h("h2", {}, "transactional ids"), table(["id", "state", "producer id / epoch", "open for", "partitions", "client"], held.map((each) => [h("code", {}, each.transactional_id), h("span", { class: each.state === "Ongoing" ? "note" : each.state.startsWith("Prepare") ? "warn" : "" }, each.state),
        `${each.producer_id} / ${each.producer_epoch}`, each.state === "Ongoing" && each.started >= 0 ? `${Math.max(now - each.started, 0) / 1000} s, ${each.timeout_ms >= 0 ? `aborted after ${each.timeout_ms / 1000} s` : "with an unknown timeout"}` : "",
        each.partitions.flatMap((one) => one.partitions.map((index) => (index < 0 ? one.topic : `${one.topic}-${index}`))).join(", "), [each.client_id, each.client_host].filter(Boolean).join(" at ")])));
      const open = held.filter((each) => each.state === "Ongoing").slice(0, 3);
      if (open.length) parts.push(commands("commands that end an open transaction", open.map((each) => `kafka-transactions.sh --bootstrap-server ${servers} forceTerminateTransaction --transactionalId=${quoted(each.transactional_id)}`),
        "This is the tool of Kafka 4.3. Older tools abort the transaction on one partition at a time: abort --topic … --partition … --start-offset …, with the values that find-hanging prints."));
    }
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "id", "state", "partitions"], changes.toReversed().map((row) => [time(row.time), h("code", {}, row.transactional_id), row.state, row.partitions.join(", ")])));
    if (!parts.length) parts.push(empty(`No transactional producer has begun${feed.run.of === "proxy" ? " through this proxy" : ""} yet. At the trace level changes, each change of a transaction appears here.`));
    element.replaceChildren(...parts);
  }

  return { element, walk, draw, async poll() { held = (await ask("GET", "transactions")).transactions; ({ now, bootstrap_servers: servers } = await ask("GET", "health")); return [held, held.some((each) => each.state === "Ongoing") && now]; } };
}
