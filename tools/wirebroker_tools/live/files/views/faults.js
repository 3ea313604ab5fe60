// The loaded faults, and how often each has fired. New faults are typed as in fault files.

import { empty, h, table } from "../dom.js";

const EXAMPLE = `[[fault]]
kind = "lose_ack"
api = "Produce"
topic = "orders"
nth = 1
`;

export function open({ feed, ask }) {
  const text = h("textarea", { "aria-label": "a fault file", spellcheck: "false" });
  text.value = EXAMPLE;
  const wrong = h("p", { class: "bad", role: "alert" });
  const listed = h("div", {});
  const element = h("div", { class: "pad" }, listed, h("h2", {}, "add"), text, h("p", {}, h("button", { onclick: add }, "load"), "  as a fault file; every kind is in docs/how-to/faults.md"), wrong);

  let faults = [];

  async function poll() { return ({ faults } = await ask("GET", "faults")); }

  function draw() {
    listed.replaceChildren(faults.length ? table(["rule", "matched", "fired", "", ""], faults.map((each) => [h("code", {}, each.description), each.seen, each.fired,
      each.fired ? h("a", { class: "fault", href: `#/exchanges?where=${encodeURIComponent(`rule="${each.description.replaceAll('"', "")}"`)}` }, "✓ fired: show") : h("span", { class: "dim" }, "not yet"),
      h("button", { onclick: () => attempt(() => ask("DELETE", `faults/${each.id}`)) }, "remove")]))
      : empty("No fault is loaded. Load one below; the proof that it fired appears here."));
  }

  async function attempt(change) {
    try { wrong.textContent = ""; await change(); await poll(); draw(); } catch (problem) { wrong.textContent = problem.message; }
  }

  function add() { attempt(() => ask("POST", "faults/file", text.value)); }

  return { element, draw, poll };
}
