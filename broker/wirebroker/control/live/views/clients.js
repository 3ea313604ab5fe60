// Who connects, with which software, and which APIs it speaks in which versions.

import { empty, h, table } from "../dom.js";
import { topics, values } from "../fields.js";

const NAMED = 12; // names in a cell

export function open({ feed }) {
  const element = h("div", { class: "pad" });

  function update() {
    const clients = new Map();
    for (const row of feed.latest((each) => each.client_id !== undefined && each.software !== undefined, 20_000)) {
      const key = row.client_id ?? "";
      const found = clients.get(key) ?? { id: row.client_id, software: "", connections: new Set(), apis: new Map(), topics: new Set(), names: new Set(), errors: new Map() };
      clients.set(key, found);
      found.software ||= row.software; // the first request of a connection does not have it yet
      found.connections.add(row.connection);
      for (const [topic, index] of topics(row)) if (index !== null) found.topics.add(topic);
      if (row.producer_id >= 0) found.names.add(`producer ${row.producer_id}`);
      for (const kind of ["group", "transaction"]) for (const name of values(row, kind)) found.names.add(`${kind} ${name}`);
      if (row.event === "reply" || row.event === "unsupported") {
        const api = `${row.api} v${row.version}`;
        found.apis.set(api, { count: (found.apis.get(api)?.count ?? 0) + 1, old: row.event === "unsupported" || row.version < (feed.run.lowest[row.api] ?? 0) });
        for (const error of row.errors ?? []) found.errors.set(error, (found.errors.get(error) ?? 0) + 1);
      }
    }
    const some = (names) => { const all = [...names]; return all.slice(0, NAMED).map((name) => h("span", { class: "box" }, name)).concat(all.length > NAMED ? [`and ${all.length - NAMED} more`] : []); };
    const rows = [...clients.values()].map((each) => [h("code", {}, each.id ?? "–"), each.software || h("span", { class: "note" }, "does not say"), each.connections.size,
      [...each.apis].map(([api, { count, old }]) => h("span", { class: old ? "box bad" : "box", title: old ? "Kafka 4 no longer speaks this version (KIP-896)" : null }, `${api} ×${count}`)),
      some(each.topics), some(each.names), [...each.errors].map(([error, count]) => h("span", { class: "box bad" }, `${error} ×${count}`))]);
    element.replaceChildren(rows.length ? table(["client id", "software", "connections", "APIs and versions", "topics", "producers, groups, transactions", "errors"], rows)
      : empty("No client yet. The APIs of each client are shown at the trace level exchanges."));
  }

  return { element, update };
}
