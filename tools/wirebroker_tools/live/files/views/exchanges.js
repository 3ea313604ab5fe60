// The rows of the trace, a line for each exchange or for each row; beside them, the chosen row with its request, response and verdicts.

import { copyButton } from "../copying.js";
import { empty, h, isEmpty, printable, time, words } from "../dom.js";
import { Feed } from "../feed.js";
import { BESIDE_FIELDS, similar } from "../fields.js";
import { Fold, Lines } from "../folds.js";
import { partsOf } from "../rows.js";

const HEIGHT = 22; // of a row, as in style.css
const BESIDE = 20; // rows that are drawn above and below the visible rows
const COLUMNS = { t: "time", c: "#", i: "client", p: "topic or group", m: "request", n: "", o: "outcome", r: "" };

export function open({ feed, words: address, remember, ask }) {
  const list = h("div", { class: "rows", tabindex: "0", "aria-label": "rows" });
  const height = h("div", {});
  const drawn = h("div", {});
  const detail = h("aside", { "aria-label": "the chosen row" });
  const nothing = h("div", {});
  const folding = h("input", { type: "checkbox", "aria-label": "one line for each exchange, and one for repeated rows", title: "one line for each exchange, and one for repeated rows (key f)", onchange: () => fold(folding.checked) });
  const earlier = h("button", { type: "button", onclick: () => feed.go({ until: feed.rows[0]?.id ?? 0 }) });
  const later = h("button", { type: "button", onclick: () => feed.go({ after: feed.rows.at(-1)?.id ?? 0 }) });
  const around = h("div", { class: "around" }, earlier, later);
  const heads = h("div", { class: "captions" }, Object.entries(COLUMNS).map(([kind, name]) => h("span", { class: kind },
    kind === "r" ? h("label", {}, folding, h("span", {}, " brief")) : name)));
  const table = h("div", { class: "table" }, heads, list, around);
  const element = h("div", { class: "split" }, table);
  list.append(height, drawn, nothing);
  folding.checked = address.get("fold") !== "no";
  let lines = new Lines(true), source = null, added = 0, firstId = 0;
  let chosen = Number(address.get("row")) || null;
  let follows = !chosen; // stay at the newest row
  let drawing = 0, began = feed.began;
  if (chosen && feed.run.of === "file" && Feed.at(feed.rows, chosen) < 0) feed.go({ row: chosen });

  /** Add the new rows. If rows were dropped, begin again. */
  function collect() {
    const rows = feed.chosen;
    if (rows !== source || rows.length < added || rows[0]?.id !== firstId) {
      lines = new Lines(true);
      source = rows;
      added = 0;
      firstId = rows[0]?.id;
    }
    if (!folding.checked) return rows;
    while (added < rows.length) lines.add(rows[added++]);
    return lines.all;
  }

  function fold(wanted) {
    folding.checked = wanted;
    remember({ fold: wanted ? null : "no" });
    source = null;
    draw();
  }

  function draw() {
    drawing = 0;
    if (began !== feed.began) { began = feed.began; follows = feed.run.of !== "file" && !chosen; list.scrollTop = 0; }
    const entries = collect();
    if (!entries.length) nothing.replaceChildren(...whyNothing());
    nothing.hidden = entries.length > 0;
    heads.hidden = entries.length === 0;
    height.style.height = `${entries.length * HEIGHT}px`;
    if (follows && feed.run.of !== "file") list.scrollTop = entries.length * HEIGHT;
    const first = Math.max(Math.floor(list.scrollTop / HEIGHT) - BESIDE, 0);
    const last = Math.min(first + Math.ceil(list.clientHeight / HEIGHT) + 2 * BESIDE, entries.length);
    while (drawn.childElementCount > last - first) drawn.lastChild.remove();
    while (drawn.childElementCount < last - first) drawn.append(h("div", {}, Object.keys(COLUMNS).map((kind) => h("span", { class: kind }))));
    let line = drawn.firstChild;
    for (let index = first; index < last; index++, line = line.nextSibling) fill(line, entries[index], index);
    drawAround();
  }

  /** For a file: the buttons for the rows before and after the window. */
  function drawAround() {
    const { file, rows } = feed;
    around.hidden = !file || !rows.length;
    if (around.hidden) return;
    const all = feed.where ? "found" : "rows";
    earlier.disabled = feed.before <= 0;
    later.disabled = !file.done || rows.at(-1).id >= file.rows || (all === "found" && !file.searching && rows.length >= file.found);
    earlier.textContent = "▲ earlier rows";
    later.textContent = `later rows ▼`;
  }

  /** The advice if no row is shown. */
  function whyNothing() {
    const { file } = feed;
    if (file && (!file.done || file.searching)) return [empty(file.searching ? "Searching the file …" : "Reading the file …")];
    const number = file ? file.rows : feed.rows.length;
    if (!feed.where || !number) return [empty(file ? "The file has no row that can be read." : "No row yet. Point a client at the broker; at the level exchanges every request and response is a row.")];
    const meant = similar(feed.where, feed.rows);
    return [empty(`None of the ${number.toLocaleString("en")} rows meets the filter ${feed.where}. `, meant ? h("span", {}, "Did you mean ", h("a", { href: `#/exchanges?where=${encodeURIComponent(meant)}` }, meant), "? ") : null,
      h("a", { href: "#/exchanges" }, "Show all rows"))];
  }

  /** Show a row or a fold in an existing line, because creating lines takes longest. */
  function fill(line, row, index) {
    const folded = row instanceof Fold;
    line.className = `row${row.id === chosen && !folded ? " chosen" : ""}${folded ? " folded" : ""}`;
    line.style.top = `${index * HEIGHT}px`;
    if (line.row === row && !folded) return;
    line.row = row;
    const texts = folded ? ofFold(row) : ofRow(row);
    texts.forEach((text, at) => { line.children[at].textContent = printable(text); });
    line.children[6].className = `o ${texts[6]}`;
    line.title = printable(texts[7]);
  }

  function ofFold(fold) {
    const [requests, rest] = fold.words();
    return [time(fold.rows[0].time), "", fold.open ? "▾ hide" : "▸ show", "", requests, "", "folded", `${rest}, until ${time(fold.rows.at(-1).time)}`];
  }

  function ofRow(row) {
    const [place, middle, outcome, rest] = partsOf(row);
    const cut = /^(.*?\S) {2,}(\S+(?: \S+)*?) *$/.exec(middle) ?? [null, middle, ""];
    return [time(row.time), row.connection === undefined ? "" : `#${row.connection}`, row.client_id ?? "", place, cut[1], cut[2], outcome, rest];
  }

  function choose(row) {
    chosen = row?.id ?? null;
    follows = false;
    remember({ row: row ? feed.number(row) || null : null });
    element.classList.toggle("open", row !== undefined);
    if (row) { describe(row); element.append(detail); } else detail.remove();
    draw();
  }

  async function describe(row) {
    detail.replaceChildren(...described(row, []));
    try {
      const related = await feed.related(row);
      if (chosen === row.id) detail.replaceChildren(...described(row, related));
    } catch (absent) { if (chosen === row.id) detail.append(h("p", { class: "note" }, `the other rows of this exchange cannot be read: ${absent.message}`)); }
  }

  function described(row, related) {
    const frames = h("div", {});
    const reply = [row, ...related].find((each) => each.event === "reply");
    if (reply) showFrames(frames, reply);
    return [h("button", { onclick: () => choose(undefined), title: "Esc" }, "close"),
      copyButton("copy row", () => JSON.stringify(plain(row)), "the row as JSON"), copyButton("copy link", () => location.href, "this view, with its filter and row"),
      h("h2", {}, `${row.event} ${feed.number(row) || "of an earlier run"}`),
      ...[row, ...related].filter((each) => each.explain).map((each) => h("p", { class: each.verdict }, each.explain)), fields(row), frames,
      ...related.map((each) => h("details", {}, h("summary", {}, `${each.event} ${feed.number(each)}`), fields(each)))];
  }

  function fields(row) {
    const shown = Object.entries(row).filter(([key, value]) => !BESIDE_FIELDS.has(key) && key !== "explain" && !isEmpty(value) && !(key.endsWith("_us") && value < 0));
    const single = shown.flatMap(([key, value]) => (key === "details" ? Object.entries(value) : [[key, value]])); // details are fields, too
    return h("dl", {}, single.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, key === "time" ? `${time(value)}  (${value})` : words(value))]));
  }

  async function showFrames(into, row) {
    if (!feed.number(row)) return; // the row belongs to an earlier run, whose bytes are gone
    try {
      const found = await ask("GET", `exchanges/${feed.number(row)}${feed.run.of === "file" ? "" : `?run=${encodeURIComponent(feed.run.run)}`}`);
      into.append(...frame("request", found.request, ""), ...frame("response", found.response, ` --api ${row.api} --version ${row.version}`));
    } catch (absent) { into.append(h("p", { class: "note" }, absent.message)); }
  }

  /** Shows a request or a response: its fields and bytes. The bytes of the field under the pointer are marked. */
  function frame(name, found, flags) {
    const bytes = found.hex.match(/../g) ?? [];
    const cells = bytes.map((each) => h("span", {}, each));
    const dump = h("pre", { class: "hex" }, cells.flatMap((cell, at) => (at % 16 ? [" ", cell] : [at ? "\n" : "", h("i", {}, at.toString(16).padStart(4, "0")), "  ", cell])));
    const mark = (field) => { for (let at = field.start; at < Math.min(field.end, cells.length); at++) cells[at].classList.add("marked"); cells[field.start]?.scrollIntoView({ block: "nearest" }); };
    const clear = () => { for (const cell of dump.querySelectorAll(".marked")) cell.classList.remove("marked"); };
    const listed = found.fields.map((field) => h("div", { class: "field", tabindex: "0", onmouseenter: () => mark(field), onmouseleave: clear, onfocus: () => mark(field), onblur: clear },
      "  ".repeat(field.depth), h("b", {}, field.name), field.value === "" ? "" : ` ${field.value}`));
    const whole = found.hex.length === found.size * 2;
    const size = found.size.toString(16).padStart(8, "0"); // the first bytes of a frame, which `decode` reads
    return [h("h2", {}, `${name}, ${found.size.toLocaleString()} bytes`), h("p", {}, copyButton("copy hex", () => found.hex, whole ? null : "the first 16 KiB"),
      whole ? copyButton("copy command", () => `wirebroker decode ${size}${found.hex}${flags}`, "wirebroker decode, with these bytes") : null), found.damage ? h("p", { class: "bad" }, found.damage) : null,
      h("pre", { class: "fields" }, listed), h("details", {}, h("summary", {}, "with its records"), h("pre", {}, found.lines.join("\n"))), dump].filter(Boolean);
  }

  /** The index of a line, or −1. */
  function placeOf(id) {
    return folding.checked ? lines.at(id) : Feed.at(feed.chosen, id);
  }

  function step(by) {
    const entries = collect();
    const at = placeOf(chosen);
    let next = at < 0 ? entries.length - 1 : at + by;
    while (entries[next] instanceof Fold) next += by;
    if (!entries[next]) return;
    const top = next * HEIGHT;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
    choose(entries[next]);
  }

  list.addEventListener("click", (event) => {
    const row = event.target.closest(".row")?.row;
    if (row instanceof Fold) { lines.toggle(row); follows = false; draw(); } else if (row) choose(row);
  });
  list.addEventListener("scroll", () => {
    follows = list.scrollTop + list.clientHeight >= collect().length * HEIGHT - HEIGHT;
    drawing ||= requestAnimationFrame(draw);
  });
  return {
    element,
    update() {
      if (chosen && !detail.isConnected) {
        const row = feed.rows[Feed.at(feed.rows, chosen)];
        if (row) {
          choose(row);
          const at = placeOf(chosen);
          const entry = collect()[at];
          if (entry instanceof Fold) lines.toggle(entry);
          list.scrollTop = placeOf(chosen) * HEIGHT - list.clientHeight / 2;
        }
      }
      draw();
    },
    key(event) {
      if (event.key === "j" || event.key === "ArrowDown") { event.preventDefault(); step(1); }
      else if (event.key === "k" || event.key === "ArrowUp") { event.preventDefault(); step(-1); }
      else if (event.key === "End") follows = true;
      else if (event.key === "f") fold(!folding.checked);
      else if (event.key === "Escape") choose(undefined);
    },
  };
}

const plain = ({ id, parts, ...row }) => row;
