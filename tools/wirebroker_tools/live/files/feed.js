// The rows of the trace as they arrive, and the rows that meet the filter. For a saved file, a window of its rows.

import { ask } from "./dom.js";
import { met } from "./fields.js";
import { rowOf } from "./rows.js";

export const MOST = 100_000; // rows that the page keeps
const SPARE = 10_000; // rows that are dropped together, so that arrays are seldom moved
const WINDOW = 50_000; // rows of a file that are loaded at once
const BEFORE = 1000; // rows of a file that are loaded before the wanted row
const AGAIN_MS = 1000;
const SLICE_MS = 12; // filtering that takes longer continues in the next frame

export class Feed extends EventTarget {
  rows = []; // the kept rows; of a file: those rows of the loaded window that meet the filter
  chosen = []; // the rows that meet the filter
  run = { run: "", of: "broker", lowest: {} };
  missed = 0;
  state = "connecting";
  lost = 0; // since when the connection is lost, in ms since the epoch
  problem = ""; // which broker a proxy cannot reach
  file = null; // how far a file is indexed and searched: see wirebroker_tools/live/saved_file.py
  last = 0; // the number of the last row of this run
  base = 0; // a row's id minus its number: the rows of earlier runs have the lower ids
  older = 0; // how many of the first rows are rows of earlier runs
  began = 0; // how often the list of rows was begun again
  before = 0; // in a file: the number of the row before the window
  near = 0; // in a file: the row that the address names
  dropped = 0; // how many rows the page no longer keeps
  #wanted = () => true;
  where = ""; // the filter as a text
  #place = null; // in a file: where the next window begins
  #source = null;
  #told = false;
  #checked = 0; // how many rows the filter has been applied to

  connect() {
    const of = this.run.of === "file" ? this.#window() : { after: this.last };
    this.#source = new EventSource(`../events?${new URLSearchParams({ run: this.run.run, ...of })}`);
    this.#source.addEventListener("run", (event) => this.#begins(JSON.parse(event.data)));
    this.#source.addEventListener("missed", (event) => { this.missed += JSON.parse(event.data).rows; });
    this.#source.addEventListener("problem", (event) => { this.problem = JSON.parse(event.data).problem; this.#tell(); });
    this.#source.addEventListener("index", (event) => { this.file = JSON.parse(event.data); this.#tell(); });
    this.#source.addEventListener("numbered", (event) => this.#takeNumbered(JSON.parse(event.data)));
    this.#source.onmessage = (event) => this.#take(JSON.parse(event.data), Number(event.lastEventId));
    this.#source.onopen = () => this.#is("live");
    this.#source.onerror = () => {
      this.#source.close();
      this.#is("lost");
      setTimeout(() => this.connect(), AGAIN_MS);
    };
  }

  #is(state) {
    this.lost = state !== "lost" ? 0 : this.lost || Date.now();
    this.state = state;
    this.#tell();
  }

  #begins(run) {
    if (run.of === "file" && this.run.of !== "file") {
      this.run = run;
      this.go(this.near ? { row: this.near } : {});
      return;
    }
    if (run.of === "file") {
      if (this.#place) { this.#forget(); this.before = run.after; }
      this.#place = null;
    } else if (run.run !== this.run.run) {
      const restarted = this.run.run && run.run.split("-")[0] !== this.run.run.split("-")[0];
      if (restarted) { // another process: its rows come after the rows of the earlier process
        this.base = this.rows.at(-1)?.id ?? 0;
        this.older = this.rows.length;
        this.began++;
      } else this.#forget();
      this.last = this.missed = 0;
      this.problem = "";
      this.dispatchEvent(new Event("begins"));
    }
    this.run = run;
    this.#tell();
  }

  #forget() {
    this.rows = [];
    this.chosen = [];
    this.#checked = this.dropped = this.base = this.older = 0;
    this.began++;
  }

  #take(rows, last) {
    const before = this.base + last - rows.length;
    rows.forEach((values, index) => this.rows.push(rowOf(values, before + index + 1, this.run)));
    this.last = last;
    if (this.rows.length > MOST + SPARE) {
      const dropped = this.rows.length - MOST;
      const first = this.rows[dropped].id;
      this.rows.splice(0, dropped);
      this.dropped += dropped;
      this.older = Math.max(this.older - dropped, 0);
      this.chosen = this.chosen.filter((row) => row.id >= first);
      this.#checked = Math.max(this.#checked - dropped, 0);
    }
    this.#tell();
  }

  #takeNumbered({ numbers, rows }) {
    rows.forEach((values, index) => this.rows.push(rowOf(values, numbers[index], this.run)));
    this.chosen = this.rows;
    this.#checked = this.rows.length;
    this.#tell();
  }

  /** Choose the rows that meet a filter. `tree` is the parsed filter, and `where` is its text. For a file, the control needs the text. */
  choose(tree, where) {
    this.#wanted = met(tree);
    if (this.run.of === "file" && where === this.where) return;
    this.where = where;
    if (this.run.of === "file") { this.go({}); return; }
    this.chosen = [];
    this.#checked = 0;
    this.#tell();
  }

  /** Show another part of a file: around a row, from a time on, after a row or before a row; by default the beginning of the file. */
  go({ row = 0, time = -1, after = 0, until = 0 }) {
    this.#place = row ? { after: row, before: BEFORE } : time >= 0 ? { after: 0, time } : until ? { after: until, before: WINDOW } : { after };
    this.near = row;
    this.#source?.close();
    this.connect();
  }

  #window() {
    const more = this.#place ?? { after: this.rows.at(-1)?.id ?? 0 };
    return { ...more, most: this.#place ? WINDOW : Math.max(WINDOW - this.rows.length, 0), where: this.where };
  }

  /** The control's number of a row, or 0 for a row of an earlier run. */
  number(row) { return Math.max(row.id - this.base, 0); }

  /** The other rows of a row's exchange, as far as the page or the file has them. */
  async related(row) {
    const same = (other) => other.id !== row.id && other.connection === row.connection && other.correlation_id === row.correlation_id && other.node === row.node;
    if (!(row.correlation_id >= 0)) return [];
    if (this.run.of !== "file") return this.latest((other) => same(other) && (other.id > this.base) === (row.id > this.base), 50);
    const { node, connection, correlation_id } = row;
    const found = await ask("GET", `rows/${row.id}/related?${new URLSearchParams({ node, connection, correlation_id })}`);
    return found.rows.map((values, index) => rowOf(values, found.numbers[index], this.run)).filter(same);
  }

  /** The latest rows that are `wanted`, at most `most`, the newest last. */
  latest(wanted, most = 1000) {
    const found = [];
    for (let at = this.rows.length - 1; at >= 0 && found.length < most; at--) if (wanted(this.rows[at])) found.push(this.rows[at]);
    return found.reverse();
  }

  /** The index of the row with this number in these ordered rows, or −1. */
  static at(rows, id) {
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].id < id) low = middle + 1; else high = middle;
    }
    return rows[low]?.id === id ? low : -1;
  }

  /** Dispatch "rows" in the next frame. */
  #tell() {
    if (this.#told) return;
    this.#told = true;
    requestAnimationFrame(() => {
      this.#told = false;
      this.#filter();
      this.dispatchEvent(new Event("rows"));
    });
  }

  #filter() {
    const end = performance.now() + SLICE_MS;
    while (this.#checked < this.rows.length) {
      const until = Math.min(this.#checked + 1000, this.rows.length);
      for (; this.#checked < until; this.#checked++) if (this.#wanted(this.rows[this.#checked])) this.chosen.push(this.rows[this.#checked]);
      if (performance.now() > end) { this.#tell(); return; }
    }
  }
}

/**
 * Visits each row once, in order, in slices that do not delay a frame. `begin` is called at first, and when another run begins.
 * `visit` returns whether the row changes what a view shows; `changed` stays true until the view has been drawn.
 */
export class Walk {
  changed = true;
  last = 0; // the number of the last row that was visited
  #began = -1;
  #seen = 0;

  constructor(feed, begin, visit) {
    Object.assign(this, { feed, begin, visit });
  }

  /** Visit the rows that have arrived since the last call. Returns whether all rows have been visited. */
  go() {
    const { rows, dropped, older, began } = this.feed;
    if (this.#began !== began) {
      this.#began = began;
      this.#seen = dropped + older;
      this.last = 0;
      this.changed = true;
      this.begin();
    }
    const end = performance.now() + SLICE_MS;
    let at = Math.max(this.#seen - dropped, 0);
    while (at < rows.length && (at % 256 || performance.now() < end)) if (this.visit(rows[at++])) this.changed = true;
    this.#seen = at + dropped;
    this.last = rows[at - 1]?.id ?? 0;
    return at === rows.length;
  }
}
