// Groups: members, generations, and rebalances as they happen.

import { commands, quoted } from "../commands.js";
import { empty, h, table, time } from "../dom.js";
import { Walk } from "../feed.js";
import { above } from "../picture.js";
import { values } from "../fields.js";

const TOOLS = { classic: "kafka-consumer-groups.sh", consumer: "kafka-consumer-groups.sh", share: "kafka-share-groups.sh", streams: "kafka-streams-groups.sh" };
const MOST = 200; // how many changes are shown, and how many groups of a proxy

export function open(parts) {
  const { feed, ask } = parts;
  const element = h("div", { class: "pad" });
  let held = [], changes, groups, servers = "";
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
    if (held.length) parts.push(h("h2", {}, "groups"), table(["group", "type", "state", "generation", "members", "committed, and lag"], held.map((each) => [h("code", {}, each.group_id), each.type, each.state, each.generation,
      each.members.map((one) => h("span", { class: "box", title: one.member_id }, `${one.client_id} at ${one.client_host.replace(/^\//, "")}${assigned(one)}`)), each.offsets.map((one) => h("span", { class: one.lag > 0 ? "box warn" : "box" }, `${one.topic}-${one.partition} at ${one.offset}${one.lag >= 0 ? `, lag ${one.lag}` : ""}${one.pending ? ", pending" : ""}`))])));
    if (held.length) parts.push(commands("commands that describe a group, and that remove a member that is stuck", held.slice(0, 3).flatMap((each) => [
      `${TOOLS[each.type] ?? TOOLS.classic} --bootstrap-server ${servers} --describe --members --group=${quoted(each.group_id)}`,
      ...(each.type === "classic" && each.members.length ? [`python -m kafka.admin --bootstrap-servers ${servers} groups remove-members --group-id=${quoted(each.group_id)} --member-id=${quoted(each.members[0].member_id)}`] : []),
    ]), "Kafka's own tools cannot remove a member; kafka-python can remove members of classic groups. A client that still runs joins again, so stop it first: the table above names its host."));
    if (changes.length) parts.push(h("h2", {}, "as they changed, newest first"), table(["time", "group", "state", "generation", "members"], changes.toReversed().map((row) => [time(row.time), h("code", {}, row.group), row.state, row.generation, row.members])));
    if (groups.size) parts.push(h("h2", {}, "asked through this proxy"), table(["group", "requests", "errors"], [...groups].map(([group, found]) => [h("code", {}, group), boxes(found.apis, ""), boxes(found.errors, "bad")])));
    element.replaceChildren(...(parts.length ? parts : [empty("No group yet. A consumer with a group.id appears here when it joins.")]));
  }

  const assigned = (member) => (member.assignment?.length ? `: ${member.assignment.flatMap((one) => one.partitions.map((index) => `${one.topic}-${index}`)).join(", ")}` : "");
  const boxes = (counts, kind) => [...counts].map(([name, count]) => h("span", { class: `box ${kind}` }, `${name} ×${count}`));
  return above({ element, walk, draw, async poll() { held = (await ask("GET", "groups")).groups; servers ||= (await ask("GET", "health")).bootstrap_servers; return held; } }, { kind: "groups", ...parts });
}
