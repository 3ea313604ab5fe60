// The rows of the trace as they come, and those of them that meet the filter.

import { met } from "./fields.js";
import { rowOf } from "./rows.js";

export const MOST = 100_000; // rows that the page keeps
const SPARE = 10_000; // dropped at once, so that arrays are seldom moved
const AGAIN_MS = 1000;
const SLICE_MS = 12; // a longer filter goes on in the next frame

export class Feed extends EventTarget {
  rows = [];
  chosen = []; // those that meet the filter
  run = { run: "", of: "broker", lowest: {} };
  missed = 0;
  state = "connecting";
  last = 0;
  first = 0; // the last row that was there before the page
  dropped = 0; // rows of this run that the page no longer keeps
  #wanted = () => true;
  #source = null;
  #told = false;
  #checked = 0; // rows that have been held against the filter

  connect() {
    this.#source = new EventSource(`../events?run=${encodeURIComponent(this.run.run)}&after=${this.last}`);
    this.#source.addEventListener("run", (event) => this.#begins(JSON.parse(event.data)));
    this.#source.addEventListener("missed", (event) => { this.missed += JSON.parse(event.data).rows; });
    this.#source.onmessage = (event) => this.#take(JSON.parse(event.data), Number(event.lastEventId));
    this.#source.onopen = () => this.#is("live");
    this.#source.onerror = () => {
      this.#source.close();
      this.#is("lost");
      setTimeout(() => this.connect(), AGAIN_MS);
    };
  }

  #is(state) {
    this.state = state;
    this.#tell();
  }

  #begins(run) {
    if (run.run !== this.run.run) {
      this.rows = [];
      this.chosen = [];
      this.#checked = this.last = this.first = this.missed = this.dropped = 0;
      this.dispatchEvent(new Event("begins"));
    }
    this.run = run;
    this.#tell();
  }

  #take(rows, last) {
    if (!this.last) this.first = last;
    const before = last - rows.length;
    rows.forEach((values, index) => this.rows.push(rowOf(values, before + index + 1, this.run)));
    this.last = last;
    if (this.rows.length > MOST + SPARE) {
      const dropped = this.rows.length - MOST;
      const first = this.rows[dropped].id;
      this.rows.splice(0, dropped);
      this.dropped += dropped;
      this.chosen = this.chosen.filter((row) => row.id >= first);
      this.#checked = Math.max(this.#checked - dropped, 0);
    }
    this.#tell();
  }

  /** Choose the rows that meet a filter's tree. */
  choose(tree) {
    this.#wanted = met(tree);
    this.chosen = [];
    this.#checked = 0;
    this.#tell();
  }

  /** Rows that a view wants of all, newest last, at most so many. */
  latest(wanted, most = 1000) {
    const found = [];
    for (let at = this.rows.length - 1; at >= 0 && found.length < most; at--) if (wanted(this.rows[at])) found.push(this.rows[at]);
    return found.reverse();
  }

  /** The row with this number among these, which are in order; where it is, or −1. */
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
 * Visits each row once, in order, as many in a frame as do not hold it up. `begin` is called first, and again for another run.
 * `visit` returns whether the row changes what a view shows; `changed` stays true until the view has been drawn.
 */
export class Walk {
  changed = true;
  last = 0; // the number of the last row that was visited
  #run = null;
  #seen = 0;

  constructor(feed, begin, visit) {
    Object.assign(this, { feed, begin, visit });
  }

  /** Visit rows that have come since; whether all are visited. */
  go() {
    const { rows, dropped, run } = this.feed;
    if (this.#run !== run.run) {
      this.#run = run.run;
      this.#seen = this.last = 0;
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
