// Transactions that are open, how long already, and what they wait for.

import { empty, h, table, time } from "../dom.js";

export function open({ feed, ask }) {
  const element = h("div", { class: "pad" });
  let held = null;

  function update() {
    const changes = feed.latest((row) => row.event === "transaction", 200).reverse();
    const parts = [];
    if (held?.length) {
      const now = feed.rows.at(-1)?.time ?? 0;
      parts.push(h("h2", {}, "transactional ids"), table(["id", "state", "producer id / epoch", "open for", "partitions"], held.map((each) => [h("code", {}, each.transactional_id), h("span", { class: each.state === "Ongoing" ? "note" : each.state.startsWith("Prepare") ? "warn" : "" }, each.state),
        `${each.producer_id} / ${each.producer_epoch}`, each.state === "Ongoing" && each.started >= 0 ? `${Math.max(now - each.started, 0) / 1000} s, aborted after ${each.timeout_ms / 1000} s` : "", each.partitions.flatMap((one) => one.partitions.map((index) => `${one.topic}-${index}`)).join(", ")])));
    }
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "id", "state", "partitions"], changes.map((row) => [time(row.time), h("code", {}, row.transactional_id), row.state, row.partitions.join(", ")])));
    if (!parts.length) parts.push(feed.run.of === "proxy" ? empty("A proxy does not see the coordinator's state. Requests of transactions are among the exchanges: filter api~txn.")
      : empty("No transactional producer has begun yet. At the trace level changes, each change of a transaction appears here."));
    element.replaceChildren(...parts);
  }

  return { element, update, async poll() { if (feed.run.of === "broker") held = (await ask("GET", "transactions")).transactions; update(); } };
}
