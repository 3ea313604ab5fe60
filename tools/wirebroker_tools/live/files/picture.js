// A picture that the control has drawn. The user moves its window over the rows, and the control draws the next picture.

import { h, printable } from "./dom.js";

const STEP_MS = 120; // between two requests to the control
const LEAST = 10; // rows in the smallest window
const LATEST = 400; // rows in the window that follows the latest rows
const DRAWN = 50_000; // rows of a file that the control draws at once
const SCREENS = 3; // the height of a drawing

/** Elements for marks: [tag, attributes, text, marks]. A text is a text node, so nothing in it becomes markup. */
export function element([tag, attributes, text, marks]) {
  return h(`svg:${tag}`, attributes, text || null, marks.map(element));
}

function drawing(found) {
  const { width, height, title } = found;
  return h("svg:svg", { class: "picture", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title }, found.marks.map(element));
}

/** A view with a picture above it. */
export function above(view, parts) {
  const { element, update, key, moved } = picture(parts);
  return { ...view, element: h("div", { class: "stacked" }, element, view.element), update, key, moved };
}

/** A picture with its overview, and buttons and keys that move its window. `changed(window)` is called with each window. */
export function picture({ kind, feed, words, remember, ask }) {
  const choice = h("select", { "aria-label": "of", hidden: true, onchange: () => { of = choice.value; remember({ at: of }); go(); } });
  const strip = h("div", { class: "strip", title: "drag: choose the rows that are drawn" });
  const sheet = h("div", { class: "sheet", tabindex: "0" });
  const said = h("aside", { class: "said", "aria-label": "what was clicked" });
  const state = h("span", { class: "dim" }, "drawing…");
  const button = (label, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
  const tools = h("div", { class: "tools" }, choice, button("‹", "earlier ( [ )", () => move(-1)), button("›", "later ( ] )", () => move(1)), button("+", "fewer rows ( + )", () => zoom(0.5)), button("−", "more rows ( - )", () => zoom(2)),
    button("all", "all rows ( 0 )", () => show(1, 0)), button("latest", "follow the latest rows ( End )", () => show(0, 0)), state, h("a", { class: "box" }, "SVG"));
  const element_ = h("div", { class: "pictured" }, tools, strip, h("div", { class: "split" }, sheet));
  const split = sheet.parentElement;
  const link = tools.lastChild;
  let first, last, of; // first and last row of the window (0 and 0: the latest rows, 1 and 0: all rows), and the subject
  const read = (words) => { first = Number(words.get("from")) || 0; last = Number(words.get("to")) || 0; of = words.get("at") ?? ""; };
  read(words);
  let drawn = { first: 0, last: 0 }, all = { first: 1, last: 0 }, asked = "", asking = false, dragged = null;

  const query = (more) => new URLSearchParams({ width: Math.max(Math.floor(sheet.clientWidth) - 2, 320), of, ...more });
  const isWhole = () => feed.run.of === "file" && (feed.file?.rows ?? 0) <= DRAWN; // a file gets no new rows
  const bounds = () => (first || last ? { first, last } : isWhole() ? { first: 1 } : { latest: LATEST });

  async function go(again = false) {
    const at = `${feed.run.run} ${feed.last} ${first} ${last} ${of} ${sheet.clientWidth}`;
    if (asking || (at === asked && !again) || !sheet.clientWidth) return;
    asking = true;
    asked = at;
    try {
      const lines = Math.min(Math.max(Math.floor(SCREENS * sheet.clientHeight / 18), 40), 400);
      const wanted = query({ ...bounds(), lines });
      link.href = `../pictures/${kind}?${wanted}`;
      const found = await ask("GET", `pictures/${kind}/marks?${wanted}`);
      const small = await ask("GET", `pictures/overview/marks?${new URLSearchParams({ width: Math.max(strip.clientWidth, 320), first: found.first, last: found.last })}`);
      if (!sheet.isConnected) return;
      take(found, small);
    } catch (wrong) { state.textContent = wrong.message; }
    setTimeout(() => { asking = false; if (sheet.isConnected) go(); }, STEP_MS);
  }

  function take(found, small) {
    drawn = found;
    all = small;
    const top = sheet.scrollTop;
    sheet.replaceChildren(drawing(found));
    sheet.scrollTop = top;
    keepHeads();
    strip.replaceChildren(drawing(small));
    const choices = found.choices.join("\n");
    if (choice.dataset.choices !== choices) {
      choice.dataset.choices = choices;
      choice.replaceChildren(...found.choices.map((each) => h("option", { value: each }, printable(each))));
    }
    choice.value = found.choice;
    choice.hidden = !found.choices.length;
    const follows = !first && !last && feed.run.of !== "file";
    state.textContent = found.last ? `rows ${found.first.toLocaleString("en")}–${found.last.toLocaleString("en")} of ${small.first.toLocaleString("en")}–${small.last.toLocaleString("en")}${follows ? ", following" : ""}${small.first > 1 && feed.run.of !== "file" ? `; the ${feed.run.of} has forgotten the rows before ${small.first.toLocaleString("en")} (--trace FILE keeps all)` : ""}` : "no row yet";
  }

  function show(from, to) {
    first = from;
    last = to;
    remember({ from: first || "", to: last || "", at: of });
    go();
  }

  function span() { return Math.max(drawn.last - drawn.first + 1, 1); }
  function zoom(by, at = (drawn.first + drawn.last) / 2) {
    const wide = Math.min(Math.max(Math.round(span() * by), LEAST), all.last - all.first + 1);
    const share = (at - drawn.first) / span();
    const from = Math.min(Math.max(Math.round(at - share * wide), all.first), Math.max(all.last - wide + 1, 1));
    show(from, from + wide - 1);
  }
  function move(by) {
    const wide = span();
    const from = Math.min(Math.max(drawn.first + Math.round(by * wide * 0.5), all.first), Math.max(all.last - wide + 1, 1));
    show(from, from + wide - 1);
  }

  function clicked(event) {
    const part = event.target.closest("g[data-row], g[data-first]");
    if (!part) return;
    const { row, first: from, last: to } = part.dataset;
    if (from) { show(Number(from), Number(to)); return; }
    for (const each of sheet.querySelectorAll("g.chosen")) each.classList.remove("chosen");
    part.classList.add("chosen");
    tell(Number(row), part.querySelector(":scope > title")?.textContent ?? "");
  }

  /** Show the clicked row: its text, and a link to its fields and bytes. */
  function tell(row, title) {
    said.replaceChildren(h("button", { onclick: close, title: "Esc" }, "close"), h("h2", {}, `row ${row}`), h("pre", {}, title),
      h("a", { href: `#/exchanges?row=${row}` }, "its fields and bytes"));
    split.append(said);
    split.classList.add("open");
  }
  function close() { said.remove(); split.classList.remove("open"); }

  function rowAt(event) {
    const box = strip.getBoundingClientRect();
    return Math.round(all.first + (Math.min(Math.max(event.clientX - box.left, 0), box.width) / box.width) * (all.last - all.first));
  }
  strip.addEventListener("pointerdown", (event) => { dragged = rowAt(event); strip.setPointerCapture(event.pointerId); });
  strip.addEventListener("pointerup", (event) => {
    if (dragged === null) return;
    const [from, to] = [dragged, rowAt(event)].sort((one, other) => one - other);
    dragged = null;
    if (to - from >= LEAST) show(from, to);
    else { const half = Math.ceil(span() / 2); show(Math.max(from - half, all.first), Math.min(from + half, all.last)); }
  });
  /** Keep the names of the lanes visible while the user scrolls. */
  function keepHeads() { sheet.querySelector("g.heads")?.setAttribute("transform", `translate(0, ${sheet.scrollTop})`); }
  sheet.addEventListener("scroll", keepHeads);
  sheet.addEventListener("click", clicked);
  sheet.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = sheet.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.6 : 0.625, drawn.first + ((event.clientY - box.top) / box.height) * span());
  }, { passive: false });
  new ResizeObserver(() => go()).observe(sheet);

  return {
    element: element_,
    update() { if (!first && !last) go(); else if (!asked) go(); },
    /** Called when a link has changed the page's address: show the window and the subject in the address. */
    moved(words) { read(words); go(); },
    key(event) {
      const acts = { "[": () => move(-1), "]": () => move(1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(1, 0), End: () => show(0, 0), Escape: close };
      if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
    },
  };
}
