// Every row of the trace, a line each; beside it, the chosen one with its request, response and verdicts.

import { empty, h, printable, time } from "../dom.js";
import { Feed } from "../feed.js";
import { BESIDE_FIELDS } from "../fields.js";
import { partsOf } from "../rows.js";

const HEIGHT = 22; // of a row, as in style.css
const BESIDE = 20; // rows that are drawn above and below the visible ones

export function open({ feed, words, remember, ask }) {
  const list = h("div", { class: "rows", tabindex: "0", "aria-label": "rows" });
  const height = h("div", {});
  const drawn = h("div", {});
  const detail = h("aside", { "aria-label": "the chosen row" });
  const nothing = empty("No row yet. Point a client at the broker; at the level exchanges every request and response is a row.");
  const element = h("div", { class: "split" }, list);
  list.append(height, drawn, nothing);
  let chosen = Number(words.get("row")) || null;
  let follows = !chosen; // stay at the newest row
  let drawing = 0;

  function draw() {
    drawing = 0;
    const rows = feed.chosen;
    nothing.hidden = rows.length > 0;
    height.style.height = `${rows.length * HEIGHT}px`;
    if (follows) list.scrollTop = rows.length * HEIGHT;
    const first = Math.max(Math.floor(list.scrollTop / HEIGHT) - BESIDE, 0);
    const last = Math.min(first + Math.ceil(list.clientHeight / HEIGHT) + 2 * BESIDE, rows.length);
    while (drawn.childElementCount > last - first) drawn.lastChild.remove();
    while (drawn.childElementCount < last - first) drawn.append(h("div", {}, ["t", "c", "p", "m", "o", "r"].map((kind) => h("span", { class: kind }))));
    let line = drawn.firstChild;
    for (let index = first; index < last; index++, line = line.nextSibling) fill(line, rows[index], index);
  }

  /** Show a row in a line; lines are used again, because making them takes longest. */
  function fill(line, row, index) {
    line.className = row.id === chosen ? "row chosen" : "row";
    line.style.top = `${index * HEIGHT}px`;
    if (line.row === row) return;
    line.row = row;
    const [place, middle, outcome, rest] = partsOf(row);
    const texts = [time(row.time), row.connection === undefined ? "" : `#${row.connection}`, place, middle, outcome, rest];
    texts.forEach((text, at) => { line.children[at].textContent = printable(text); });
    line.children[4].className = `o ${outcome}`;
    line.title = printable(rest);
  }

  function choose(row) {
    chosen = row?.id ?? null;
    follows = false;
    remember({ row: chosen });
    element.classList.toggle("open", row !== undefined);
    if (row) { detail.replaceChildren(...described(row)); element.append(detail); } else detail.remove();
    draw();
  }

  function described(row) {
    const same = (other) => row.correlation_id >= 0 && other.connection === row.connection && other.correlation_id === row.correlation_id && other.node === row.node;
    const related = feed.latest((other) => other.id !== row.id && same(other), 50);
    const frames = h("div", {});
    const reply = [row, ...related].find((each) => each.event === "reply");
    if (reply) showFrames(frames, reply);
    return [h("button", { onclick: () => choose(undefined), title: "Esc" }, "close"), h("h2", {}, `${row.event} ${row.id}`),
      ...[row, ...related].filter((each) => each.explain).map((each) => h("p", { class: each.verdict }, each.explain)), fields(row), frames,
      ...related.map((each) => h("details", {}, h("summary", {}, `${each.event} ${each.id}`), fields(each)))];
  }

  function fields(row) {
    const shown = Object.entries(row).filter(([key, value]) => !BESIDE_FIELDS.has(key) && key !== "explain" && value !== "" && !(key.endsWith("_us") && value < 0) && !(Array.isArray(value) && !value.length));
    return h("dl", {}, shown.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, key === "time" ? `${time(value)}  (${value})` : Array.isArray(value) ? value.join(", ") : String(value))]));
  }

  async function showFrames(into, row) {
    if (row.id <= feed.first) return; // its bytes were not kept: the page was not open then
    try {
      const found = await ask("GET", `exchanges/${row.id}?run=${encodeURIComponent(feed.run.run)}`);
      into.append(...frame("request", found.request), ...frame("answer", found.answer));
    } catch (absent) { into.append(h("p", { class: "note" }, absent.message)); }
  }

  /** A request or a response: its fields, with those bytes marked on which the pointer is. */
  function frame(name, found) {
    const bytes = found.hex.match(/../g) ?? [];
    const cells = bytes.map((each) => h("span", {}, each));
    const dump = h("pre", { class: "hex" }, cells.flatMap((cell, at) => (at % 16 ? [" ", cell] : [at ? "\n" : "", h("i", {}, at.toString(16).padStart(4, "0")), "  ", cell])));
    const mark = (field) => { for (let at = field.start; at < Math.min(field.end, cells.length); at++) cells[at].classList.add("marked"); cells[field.start]?.scrollIntoView({ block: "nearest" }); };
    const clear = () => { for (const cell of dump.querySelectorAll(".marked")) cell.classList.remove("marked"); };
    const listed = found.fields.map((field) => h("div", { class: "field", tabindex: "0", onmouseenter: () => mark(field), onmouseleave: clear, onfocus: () => mark(field), onblur: clear },
      "  ".repeat(field.depth), h("b", {}, field.name), field.value === "" ? "" : ` ${field.value}`));
    return [h("h2", {}, `${name}, ${found.size.toLocaleString()} bytes`), found.damage ? h("p", { class: "bad" }, found.damage) : null,
      h("pre", { class: "fields" }, listed), h("details", {}, h("summary", {}, "with the records in it"), h("pre", {}, found.lines.join("\n"))), dump].filter(Boolean);
  }

  function step(by) {
    const at = Feed.at(feed.chosen, chosen);
    const next = Math.min(Math.max(at < 0 ? feed.chosen.length - 1 : at + by, 0), feed.chosen.length - 1);
    if (next < 0) return;
    const top = next * HEIGHT;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
    choose(feed.chosen[next]);
  }

  list.addEventListener("click", (event) => { const row = event.target.closest(".row")?.row; if (row) choose(row); });
  list.addEventListener("scroll", () => {
    follows = list.scrollTop + list.clientHeight >= feed.chosen.length * HEIGHT - HEIGHT;
    drawing ||= requestAnimationFrame(draw);
  });
  return {
    element,
    update() {
      if (chosen && !detail.isConnected) {
        const row = feed.rows[Feed.at(feed.rows, chosen)];
        if (row) { choose(row); list.scrollTop = Feed.at(feed.chosen, chosen) * HEIGHT - list.clientHeight / 2; }
      }
      draw();
    },
    key(event) {
      if (event.key === "j" || event.key === "ArrowDown") { event.preventDefault(); step(1); }
      else if (event.key === "k" || event.key === "ArrowUp") { event.preventDefault(); step(-1); }
      else if (event.key === "End") follows = true;
      else if (event.key === "Escape") choose(undefined);
    },
  };
}
