// Transactions that are open, how long already, and what they wait for.

import { empty, h, table, time } from "../dom.js";
import { Walk } from "../feed.js";

const MOST = 200; // changes that are shown

export function open({ feed, ask }) {
  const element = h("div", { class: "pad" });
  let held = [], changes;
  const walk = new Walk(feed, () => { changes = []; }, (row) => {
    if (row.event !== "transaction") return false;
    changes.push(row);
    if (changes.length > MOST) changes.shift();
    return true;
  });

  function draw() {
    const parts = [];
    if (held.length) {
      const now = feed.rows.at(-1)?.time ?? 0;
      parts.push(h("h2", {}, "transactional ids"), table(["id", "state", "producer id / epoch", "open for", "partitions"], held.map((each) => [h("code", {}, each.transactional_id), h("span", { class: each.state === "Ongoing" ? "note" : each.state.startsWith("Prepare") ? "warn" : "" }, each.state),
        `${each.producer_id} / ${each.producer_epoch}`, each.state === "Ongoing" && each.started >= 0 ? `${Math.max(now - each.started, 0) / 1000} s, aborted after ${each.timeout_ms / 1000} s` : "", each.partitions.flatMap((one) => one.partitions.map((index) => `${one.topic}-${index}`)).join(", ")])));
    }
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "id", "state", "partitions"], changes.toReversed().map((row) => [time(row.time), h("code", {}, row.transactional_id), row.state, row.partitions.join(", ")])));
    if (!parts.length) parts.push(feed.run.of === "proxy" ? empty("A proxy does not see the coordinator's state. Requests of transactions are among the exchanges: filter api~txn.")
      : empty("No transactional producer has begun yet. At the trace level changes, each change of a transaction appears here."));
    element.replaceChildren(...parts);
  }

  return { element, walk, draw, async poll() { if (feed.run.of === "broker") held = (await ask("GET", "transactions")).transactions; return [held, held.some((each) => each.state === "Ongoing") && feed.rows.at(-1)?.time]; } };
}
