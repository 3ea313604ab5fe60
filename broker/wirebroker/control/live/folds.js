// Rows that repeat as one line. The same rules as in wirebroker/trace/folds.py; a test compares them.

const FEWEST = 6; // repeats that are folded
const MOST_KINDS = 64; // kinds of rows that are remembered

/** What rows have in common that repeat each other; null for a row that is always shown. */
function kindOf(row) {
  const place = `${row.event} ${row.node} ${row.connection} `;
  if (row.event === "request" || (row.event === "reply" && !row.errors.length)) return place + row.api + row.about.join(",");
  if (row.event === "fetch" && !row.code) return `${place}${row.topic}-${row.partition}`;
  if ((row.event === "produce" || row.event === "shadow") && row.verdict === "accepted" && !row.note && row.agrees !== false)
    return `${place}${row.topic}-${row.partition} ${row.producer_id} ${row.producer_epoch}`;
  return null;
}

const API_OF = { fetch: "Fetch", produce: "Produce", shadow: "Produce" };

/** Rows that repeat earlier ones: how many, of which APIs, until when. */
export class Fold {
  open = false;
  rows;

  constructor(rows) { this.rows = rows; }

  get id() { return this.rows[0].id; }

  /** The line in words: the requests, and the rest. */
  words() {
    const counts = new Map();
    let longest = 0;
    for (const row of this.rows) {
      const api = row.api ?? API_OF[row.event];
      if (!counts.has(api)) counts.set(api, new Map());
      counts.get(api).set(row.event, (counts.get(api).get(row.event) ?? 0) + 1);
      longest = Math.max(longest, row.latency ?? 0);
    }
    const named = [...counts].map(([api, of]) => `${(of.get("reply") ?? of.get("request") ?? Math.max(...of.values())).toLocaleString("en")} × ${api}`);
    return [named.join(", "), `0 errors${longest ? `, at most ${longest.toLocaleString("en")} ms` : ""}`];
  }
}

/** The lines of rows, kept up to date as rows are added: rows and folds. */
export class Lines {
  entries = [];
  #kinds = new Set();
  #repeats = []; // the latest rows, if they repeat earlier ones
  #fold = null; // the last entry (or, if it is open, the one before its rows), if it is a fold

  add(row) {
    const kind = kindOf(row);
    if (kind !== null && this.#kinds.has(kind)) {
      this.#repeat(row);
      return;
    }
    this.#repeats = [];
    this.#fold = null;
    if (kind === null) this.#kinds.clear();
    else {
      this.#kinds.add(kind);
      if (this.#kinds.size > MOST_KINDS) this.#kinds.delete(this.#kinds.values().next().value);
    }
    this.entries.push(row);
  }

  #repeat(row) {
    if (this.#fold) {
      this.#fold.rows.push(row);
      if (this.#fold.open) this.entries.push(row);
      return;
    }
    this.#repeats.push(row);
    this.entries.push(row);
    if (this.#repeats.length < FEWEST) return;
    this.#fold = new Fold(this.#repeats);
    this.entries.splice(-FEWEST, FEWEST, this.#fold);
  }

  /** Show or hide the rows of a fold. */
  toggle(fold) {
    const at = this.entries.indexOf(fold);
    if (at < 0) return;
    fold.open = !fold.open;
    if (fold.open) this.entries = this.entries.slice(0, at + 1).concat(fold.rows, this.entries.slice(at + 1));
    else this.entries.splice(at + 1, fold.rows.length);
  }

  /** Where the line with a row is; its fold's line if that is closed; −1 if there is none. */
  at(id) {
    let low = 0, high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const entry = this.entries[middle];
      if (entry.id < id || (entry.id === id && entry instanceof Fold && entry.open)) low = middle + 1; else high = middle;
    }
    if (this.entries[low]?.id === id) return low;
    const before = this.entries[low - 1];
    return before instanceof Fold && !before.open && before.rows.some((row) => row.id === id) ? low - 1 : -1;
  }
}
