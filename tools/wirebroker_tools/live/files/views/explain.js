// What is wrong? The findings of `wirebroker explain`, the most important first, each with its rows.

import { empty, h, isEmpty, time, words } from "../dom.js";

export function open({ ask }) {
  const element = h("div", { class: "pad" });
  let told = null;

  function draw() {
    if (!told) return;
    const parts = told.findings.map((each, index) => h("section", {},
      h("h2", {}, `${index + 1}. `, h("span", { class: "box bad" }, each.kind)),
      h("p", {}, each.sentence),
      h("dl", {}, h("dt", {}, "usual cause"), h("dd", {}, each.cause), h("dt", {}, "look at"), h("dd", {}, h("code", {}, each.look_at))),
      h("p", {}, h("a", { href: `#/exchanges?where=${encodeURIComponent(each.where)}` }, `show the rows: ${each.where}`)),
      h("ul", {}, each.rows.map((row, at) => h("li", {}, h("a", { href: `#/exchanges?row=${each.numbers[at]}` }, time(row.time)), " ", summary(row)))),
      each.count > each.rows.length ? h("p", { class: "note" }, `and ${(each.count - each.rows.length).toLocaleString("en")} more row${each.count - each.rows.length === 1 ? "" : "s"}`) : null));
    const blind = told.blind ? [h("p", { class: "warn" }, told.blind)] : [];
    element.replaceChildren(...blind, ...(parts.length ? parts : [empty(`Nothing is wrong in the latest ${told.rows.toLocaleString("en")} rows.`)]));
  }

  return { element, draw, async poll() { told = await ask("GET", "explain"); return told; } };
}

/** A row as one line: its event, and those fields whose value is neither empty nor a default. */
function summary(row) {
  const skipped = ["event", "time", "node", "client_host", "software"];
  const said = Object.entries(row).filter(([name, value]) => !skipped.includes(name) && !isEmpty(value) && value !== -1 && value !== 0 && typeof value !== "boolean");
  return `${row.event}: ${said.map(([name, value]) => (name === "details" ? words(value) : `${name} ${words(value)}`)).join(", ")}`;
}
