// The rows of the trace as they come, and those of them that meet the filter.

import { met, textOf } from "./fields.js";

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
      this.#checked = this.last = this.first = this.missed = 0;
      this.dispatchEvent(new Event("begins"));
    }
    this.run = run;
    this.#tell();
  }

  #take(rows, last) {
    for (const row of rows) row.text = textOf(row);
    if (!this.last) this.first = last;
    this.rows.push(...rows);
    this.last = last;
    if (this.rows.length > MOST + SPARE) {
      const dropped = this.rows.length - MOST;
      const first = this.rows[dropped].id;
      this.rows.splice(0, dropped);
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
