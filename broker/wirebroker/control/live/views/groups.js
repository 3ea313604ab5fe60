// Groups: members, generations, and rebalances as they happen.

import { empty, h, table, time } from "../dom.js";
import { values } from "../fields.js";

export function open({ feed, ask }) {
  const element = h("div", { class: "pad" });
  let held = null;

  function update() {
    const parts = [];
    if (held?.length) parts.push(h("h2", {}, "groups"), table(["group", "state", "generation", "members", "committed"], held.map((each) => [h("code", {}, each.group_id), each.state, each.generation,
      each.members.map((one) => h("span", { class: "box", title: one.member_id }, one.client_id)), each.offsets.map((one) => h("span", { class: "box" }, `${one.topic}-${one.partition} at ${one.offset}`))])));
    const changes = feed.latest((row) => row.event === "group", 200).reverse();
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "group", "state", "generation", "members"], changes.map((row) => [time(row.time), h("code", {}, row.group), row.state, row.generation, row.members])));
    if (feed.run.of === "proxy") parts.push(...asked());
    element.replaceChildren(...(parts.length ? parts : [empty("No group yet. A consumer with a group.id appears here when it joins.")]));
  }

  /** Through a proxy: what was asked of each group, and the errors. */
  function asked() {
    const groups = new Map();
    for (const row of feed.latest((each) => each.event === "reply", 20_000)) for (const group of values(row, "group")) {
      const found = groups.get(group) ?? { apis: new Map(), errors: new Map() };
      groups.set(group, found);
      found.apis.set(row.api, (found.apis.get(row.api) ?? 0) + 1);
      for (const error of row.errors) found.errors.set(error, (found.errors.get(error) ?? 0) + 1);
    }
    const boxes = (counts, kind) => [...counts].map(([name, count]) => h("span", { class: `box ${kind}` }, `${name} ×${count}`));
    return groups.size ? [h("h2", {}, "asked through this proxy"), table(["group", "requests", "errors"], [...groups].map(([group, found]) => [h("code", {}, group), boxes(found.apis, ""), boxes(found.errors, "bad")]))] : [];
  }

  return { element, update, async poll() { if (feed.run.of === "broker") held = (await ask("GET", "groups")).groups; update(); } };
}
