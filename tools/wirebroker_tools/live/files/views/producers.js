// The current window of each producer on each partition, and the latest verdict on a batch of the producer.

import { empty, h, table } from "../dom.js";
import { Walk } from "../feed.js";
import { above } from "../picture.js";

const MOST = 200; // producers that are shown
const KEPT = 5000; // latest verdicts that are kept

export function open(parts) {
  const { feed, ask } = parts;
  const element = h("div", { class: "pad" });
  let held = { producers: [], more: 0 };

  let latest; // the latest verdict of each producer on each partition
  const walk = new Walk(feed, () => { latest = new Map(); }, (row) => {
    if (row.verdict === undefined) return false;
    const key = `${row.producer_id} ${row.topic}-${row.partition}`;
    if (latest.size >= KEPT && !latest.has(key)) latest.delete(latest.keys().next().value);
    latest.set(key, row);
    return true;
  });

  function draw() {
    const rows = held.producers.slice(-MOST).map((each) => {
      const verdict = latest.get(`${each.producer_id} ${each.topic}-${each.partition}`);
      const who = each.name ?? `${each.producer_id} / ${each.producer_epoch}`;
      return [h("a", { href: `#/timeline?at=${encodeURIComponent(`${each.topic}-${each.partition}`)}` }, `${each.topic}-${each.partition}`), h("code", {}, who),
        [each.whole ? null : h("span", { class: "box warn", title: "some batches have not passed through this proxy" }, "…"), ...each.batches.map((batch) => h("span", { class: "box", title: `offsets ${batch.first_offset}–${batch.last_offset}` }, `${batch.first_sequence}–${batch.last_sequence}`))],
        String((each.last_sequence + 1) & 0x7fffffff), each.poisoned ? h("span", { class: "bad" }, "refused until it has a new id") : each.current_txn_start_offset >= 0 ? h("span", { class: "note" }, `transaction open from offset ${each.current_txn_start_offset}`) : "",
        verdict ? h("span", { class: verdict.verdict, title: verdict.explain }, verdict.verdict) : ""];
    });
    const left = held.more + Math.max(held.producers.length - MOST, 0);
    element.replaceChildren(rows.length ? table(["partition", "producer id / epoch", "window of sequences", "expects", "", "latest verdict"], rows.reverse())
      : empty("No idempotent producer has written yet. A producer with enable.idempotence=true appears here with its window of batches."), left ? h("p", {}, `and ${left} more`) : h("span", {}));
  }

  return above({ element, walk, draw, async poll() { held = await ask("GET", "producers"); return held; } }, { kind: "windows", ...parts });
}
