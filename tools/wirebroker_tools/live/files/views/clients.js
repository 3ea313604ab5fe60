// The clients that connect, with their software, and the APIs and versions that they use.

import { empty, h, table } from "../dom.js";
import { Walk } from "../feed.js";
import { topics, values } from "../fields.js";

const NAMED = 12; // names in a cell
const MOST = 200; // clients that are shown
const KEPT = 2000; // how many clients are counted, and how many names for each client

export function open({ feed }) {
  const element = h("div", { class: "pad" });
  let clients;
  const walk = new Walk(feed, () => { clients = new Map(); }, visit);

  function visit(row) {
    if (row.client_id === undefined || row.software === undefined) return false;
    const key = row.client_id ?? "";
    if (!clients.has(key) && clients.size < KEPT)
      clients.set(key, { id: row.client_id, software: "", connections: new Set(), apis: new Map(), topics: new Set(), names: new Set(), errors: new Map() });
    const found = clients.get(key);
    if (!found) return true;
    found.software ||= row.software; // rows of a connection's first request have no software yet
    note(found.connections, row.connection);
    if (row.producer_id >= 0) note(found.names, `producer ${row.producer_id}`);
    if (row.event !== "reply" && row.event !== "request" && row.event !== "unsupported") {
      if (row.topic !== undefined) note(found.topics, row.topic);
      if (row.acks === 0) silent(found, row);
      return true;
    }
    for (const [topic, index] of topics(row)) if (index !== null) note(found.topics, topic);
    for (const kind of ["group", "transaction"]) for (const name of values(row, kind)) note(found.names, `${kind} ${name}`);
    if (row.event === "request") return true;
    count(found, row.api, row.version);
    for (const error of row.errors ?? []) found.errors.set(error, (found.errors.get(error) ?? 0) + 1);
    return true;
  }

  function count(found, name, version) {
    const api = `${name} v${version}`;
    found.apis.set(api, { count: (found.apis.get(api)?.count ?? 0) + 1, old: version < (feed.run.lowest[name] ?? 0) });
  }

  /** A Produce with acks=0 gets no response, so it is counted at its first verdict, and its errors at each verdict. */
  function silent(found, row) {
    const exchange = `${row.node} ${row.connection} ${row.correlation_id}`;
    if (found.silent !== exchange) count(found, "Produce", row.version);
    found.silent = exchange;
    if (row.code) found.errors.set(row.error, (found.errors.get(row.error) ?? 0) + 1);
  }

  function draw() {
    const some = (names) => [...[...names].slice(0, NAMED).map((name) => h("span", { class: "box" }, name)), names.size > NAMED ? `and ${names.size - NAMED} more` : null];
    const rows = [...clients.values()].slice(0, MOST).map((each) => [h("code", {}, each.id ?? "–"), each.software || h("span", { class: "note" }, "does not say"), each.connections.size,
      [...each.apis].map(([api, { count, old }]) => h("span", { class: old ? "box bad" : "box", title: old ? "Kafka 4 no longer supports this version (KIP-896)" : null }, `${api} ×${count.toLocaleString("en")}`)),
      some(each.topics), some(each.names), [...each.errors].map(([error, count]) => h("span", { class: "box bad" }, `${error} ×${count.toLocaleString("en")}`))]);
    const left = clients.size - rows.length;
    element.replaceChildren(rows.length ? table(["client id", "software", "connections", "APIs and versions", "topics", "producers, groups, transactions", "errors"], rows)
      : empty("No client yet. The APIs of each client are shown at the trace level exchanges."), left ? h("p", {}, `and ${left} more`) : "");
  }

  return { element, walk, draw };
}

const note = (names, name) => { if (names.size < KEPT) names.add(name); };
