// The strip above a saved file: the progress of reading and searching, and a chart of the rows over time. A click in the chart
// jumps to a time. Also opens files that users drop on the page.

import { h, time } from "./dom.js";

const HIGH = 34; // the height of the bars in px
const words = (part) => `${Math.floor(part * 100)} %`;
const megabytes = (bytes) => `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: bytes < 1e7 ? 1 : 0 })} MB`;

/** The strip above a file's rows, kept up to date by `update`. */
export function strip(feed, element) {
  const said = h("span", {});
  const progress = h("progress", { max: 1, "aria-label": "read" });
  const drawing = h("svg:svg", { height: HIGH, role: "img", "aria-label": "rows over time: a click goes there" });
  let drawn = null, rows = null;
  element.append(h("div", { class: "said" }, said, progress), drawing);
  drawing.addEventListener("click", (event) => {
    const { first, last } = feed.file;
    const at = (event.clientX - drawing.getBoundingClientRect().left) / drawing.clientWidth;
    feed.go({ time: Math.floor(first + at * (last - first)) });
  });

  function draw(file) {
    const most = Math.max(...file.bars.map(([all]) => all), 1);
    const high = (number) => (number ? Math.max(HIGH * Math.sqrt(number / most), 2) : 0);
    const bar = (at, number, kind) => h("svg:rect", { x: `${(at * 100) / file.bars.length}%`, width: `${100 / file.bars.length}%`, y: HIGH - high(number), height: high(number), class: kind });
    const span = file.last - file.first || 1;
    const [from, to] = feed.rows.length ? [feed.rows[0].time, feed.rows.at(-1).time] : [0, 0];
    const shown = h("svg:rect", { class: "shown", y: 0, height: HIGH, x: `${((from - file.first) * 100) / span}%`, width: `${Math.max(((to - from) * 100) / span, 0.3)}%` });
    drawing.replaceChildren(shown, ...file.bars.flatMap(([all, trouble, found], at) => [bar(at, all, "all"), feed.where ? bar(at, found, "found") : null, bar(at, trouble, "trouble")].filter((each) => each && each.getAttribute("height") > 0)));
  }

  return function update() {
    const { file } = feed;
    element.hidden = feed.run.of !== "file";
    if (element.hidden || !file || (file === drawn && rows === feed.rows.length)) return;
    drawn = file;
    rows = feed.rows.length;
    const read = file.done ? "" : `, read ${words(file.read / file.size)} of ${megabytes(file.size)}`;
    const found = feed.where ? `, ${file.found.toLocaleString("en")} meet the filter${file.searching ? ` (searched ${words(file.searched)})` : ""}` : "";
    said.textContent = `${file.name}: ${file.rows.toLocaleString("en")} rows${read}${found} · ${time(file.first)} – ${time(file.last)}${file.complaints.length ? ` · ${file.complaints.join("; ")}` : ""}`;
    progress.hidden = file.done && !file.searching;
    progress.value = file.done ? file.searched : file.read / file.size;
    draw(file);
  };
}

/** Open a file that is dropped on the page, or chosen. `say` is called with sentences about the progress. */
export function takeFiles(input, say) {
  input.addEventListener("change", () => { if (input.files[0]) send(input.files[0], say); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0], say);
  });
}

function send(file, say) {
  const request = new XMLHttpRequest();
  request.open("POST", `/open?name=${encodeURIComponent(file.name)}`);
  request.upload.addEventListener("progress", ({ loaded, total }) => say(`${file.name}: ${words(loaded / total)} uploaded`));
  request.addEventListener("error", () => say(`${file.name} could not be sent`));
  request.addEventListener("load", () => {
    const answer = JSON.parse(request.responseText);
    if (request.status === 201) location.assign(answer.page); else say(`${file.name}: ${answer.detail}`);
  });
  request.send(file);
}
