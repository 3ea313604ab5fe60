// What happened to one partition, in the order of arrival: a lane for each producer, and leader changes and transactions.

import { empty, h, time } from "../dom.js";
import { Walk } from "../feed.js";

const MOST = 200; // batches that are drawn
const LEFT = 150, WIDE = 26, LANE = 40, TOP = 26, DIGIT = 7;

export function open({ feed, words, remember }) {
  const choice = h("select", { "aria-label": "partition", onchange: () => { remember({ at: choice.value }); choose(choice.value); draw(); } });
  const drawing = h("div", { class: "wide" });
  const said = h("p", {}, "");
  const element = h("div", { class: "pad" }, h("p", {}, "partition ", choice, h("span", { class: "box accepted" }, "stored"), h("span", { class: "box duplicate" }, "known already"), h("span", { class: "box rejected" }, "refused"), h("span", { class: "box fault" }, "fault")), drawing, said);
  const isBatch = (row) => row.verdict !== undefined;
  let places, shown, rows, topic, partition;
  const walk = new Walk(feed, () => { places = new Map(); shown = 0; choose(choice.value || words.get("at") || ""); }, (row) => {
    const isNew = isBatch(row) && !places.get(row.topic)?.has(row.partition);
    if (isNew) places.set(row.topic, (places.get(row.topic) ?? new Set()).add(row.partition));
    if (!isAbout(row)) return isNew;
    rows.push(row);
    if (rows.length > 2 * MOST) rows.splice(0, MOST);
    return true;
  });

  /** Whether a row belongs to the chosen partition's picture. */
  function isAbout(row) {
    if (isBatch(row) || row.event === "leader") return row.partition === partition && row.topic === topic;
    if (row.event !== "fault" && row.event !== "transaction") return false;
    return row.partitions.includes(`${topic}-${partition}`) || (row.batch?.topic === topic && row.batch.partition === partition);
  }

  function choose(place) {
    const at = place.lastIndexOf("-");
    topic = place.slice(0, at);
    partition = Number(place.slice(at + 1));
    rows = feed.latest((row) => row.id <= walk.last && isAbout(row), MOST);
  }

  function draw() {
    const all = [...places].flatMap(([name, indexes]) => [...indexes].map((index) => `${name}-${index}`)).sort();
    if (all.length !== shown) {
      const wanted = choice.value || words.get("at") || all[0];
      shown = all.length;
      choice.replaceChildren(...all.map((each) => h("option", { value: each, selected: each === wanted }, each)));
      if (choice.value !== `${topic}-${partition}`) choose(choice.value);
    }
    if (!all.length) { drawing.replaceChildren(empty("No batch has arrived yet.")); said.textContent = ""; return; }
    picture(rows.slice(-MOST));
  }

  function picture(rows) {
    const lanes = [...new Set(rows.filter(isBatch).map(lane))];
    const transactions = new Map();
    const ends = new Map(); // where the latest label of a lane ends
    const marks = [];
    rows.forEach((row, index) => {
      const x = LEFT + index * WIDE;
      const y = (name) => TOP + lanes.indexOf(name) * LANE;
      if (isBatch(row)) {
        marks.push(h("svg:rect", { class: row.verdict, x, y: y(lane(row)) + 4, width: WIDE - 4, height: LANE - 20, rx: 3 }, h("svg:title", {}, `${time(row.time)}  ${row.explain}`)),
          label(row, x, y(lane(row)) + LANE - 5));
        if (row.agrees === false) marks.push(h("svg:text", { x: x + 6, y: y(lane(row)) + 17 }, "≠", h("svg:title", {}, `predicted ${row.predicted}`)));
      } else if (row.event === "leader") marks.push(h("svg:line", { class: "leader", x1: x + 10, x2: x + 10, y1: TOP - 8, y2: TOP + lanes.length * LANE }), h("svg:text", { x: x - 4, y: TOP - 12 }, `→${row.leader}`, h("svg:title", {}, `leader ${row.leader}, epoch ${row.leader_epoch}`)));
      else if (row.event === "fault") marks.push(h("svg:rect", { class: "fault", x: x + 6, y: TOP - 6, width: 8, height: lanes.length * LANE + 6 }, h("svg:title", {}, row.rule)));
      else {
        const began = transactions.get(row.transactional_id) ?? x;
        if (row.state === "Ongoing") transactions.set(row.transactional_id, began);
        else if (transactions.delete(row.transactional_id)) marks.unshift(bar(row, began, x));
      }
    });
    function label(row, x, y) {
      const text = row.first_sequence >= 0 ? String(row.first_sequence) : "·";
      if (x < (ends.get(lane(row)) ?? 0)) return null;
      ends.set(lane(row), x + text.length * DIGIT + DIGIT);
      return h("svg:text", { x, y, class: "dim" }, text);
    }
    for (const [id, began] of transactions) marks.unshift(bar({ transactional_id: id, state: "open" }, began, LEFT + rows.length * WIDE));
    function bar(row, began, x) {
      return h("svg:rect", { class: "transaction", x: began, y: TOP - 4, width: Math.max(x - began, 6), height: lanes.length * LANE }, h("svg:title", {}, `transaction ${row.transactional_id}: ${row.state}`));
    }
    const lines = lanes.map((_, index) => h("svg:line", { x1: 0, x2: LEFT + rows.length * WIDE, y1: TOP + index * LANE + LANE - 1, y2: TOP + index * LANE + LANE - 1 }));
    names = h("svg:g", {}, h("svg:rect", { class: "back", width: LEFT - 4, height: TOP + lanes.length * LANE }), lanes.map((each, index) => h("svg:text", { x: 0, y: TOP + index * LANE + 19 }, each)));
    const near = drawing.scrollLeft + drawing.clientWidth >= drawing.scrollWidth - WIDE;
    drawing.replaceChildren(h("svg:svg", { width: LEFT + rows.length * WIDE + 10, height: TOP + lanes.length * LANE + 6, role: "img", "aria-label": "batches in the order of arrival" }, lines, marks, names));
    if (near) drawing.scrollLeft = drawing.scrollWidth;
    keepNames();
    const count = (verdict) => rows.filter((row) => row.verdict === verdict).length;
    said.textContent = `the latest ${rows.filter(isBatch).length} batches: ${count("accepted")} stored, ${count("duplicate")} known already, ${count("rejected")} refused`;
  }

  /** The names of the lanes stay in sight while the batches are scrolled. */
  function keepNames() { names?.setAttribute("transform", `translate(${drawing.scrollLeft}, 0)`); }
  let names = null;
  drawing.addEventListener("scroll", keepNames);

  const lane = (row) => (row.producer_id >= 0 ? `producer ${row.producer_id}/${row.producer_epoch}` : `no id, #${row.connection}`);
  return { element, walk, draw };
}
