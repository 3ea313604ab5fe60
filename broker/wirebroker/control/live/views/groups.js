// Groups: members, generations, and rebalances as they happen.

import { empty, h, table, time } from "../dom.js";
import { Walk } from "../feed.js";
import { values } from "../fields.js";

const MOST = 200; // changes, and groups of a proxy, that are shown

export function open({ feed, ask }) {
  const element = h("div", { class: "pad" });
  let held = [], changes, groups;
  const walk = new Walk(feed, () => { changes = []; groups = new Map(); }, visit);

  function visit(row) {
    if (row.event === "group") {
      changes.push(row);
      if (changes.length > MOST) changes.shift();
      return true;
    }
    if (row.event !== "reply" || feed.run.of !== "proxy") return false;
    const named = values(row, "group");
    for (const group of named) {
      if (!groups.has(group) && groups.size < MOST) groups.set(group, { apis: new Map(), errors: new Map() });
      const found = groups.get(group);
      if (!found) continue;
      found.apis.set(row.api, (found.apis.get(row.api) ?? 0) + 1);
      for (const error of row.errors) found.errors.set(error, (found.errors.get(error) ?? 0) + 1);
    }
    return named.length > 0;
  }

  function draw() {
    const parts = [];
    if (held.length) parts.push(h("h2", {}, "groups"), table(["group", "state", "generation", "members", "committed"], held.map((each) => [h("code", {}, each.group_id), each.state, each.generation,
      each.members.map((one) => h("span", { class: "box", title: one.member_id }, one.client_id)), each.offsets.map((one) => h("span", { class: "box" }, `${one.topic}-${one.partition} at ${one.offset}`))])));
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "group", "state", "generation", "members"], changes.toReversed().map((row) => [time(row.time), h("code", {}, row.group), row.state, row.generation, row.members])));
    if (groups.size) parts.push(h("h2", {}, "asked through this proxy"), table(["group", "requests", "errors"], [...groups].map(([group, found]) => [h("code", {}, group), boxes(found.apis, ""), boxes(found.errors, "bad")])));
    element.replaceChildren(...(parts.length ? parts : [empty("No group yet. A consumer with a group.id appears here when it joins.")]));
  }

  const boxes = (counts, kind) => [...counts].map(([name, count]) => h("span", { class: `box ${kind}` }, `${name} ×${count}`));
  return { element, walk, draw, async poll() { if (feed.run.of === "broker") held = (await ask("GET", "groups")).groups; return held; } };
}
