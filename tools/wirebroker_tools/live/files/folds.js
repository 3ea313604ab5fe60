// Rows that repeat as one line. The same rules as in wirebroker_tools/traces/folds.py; a test compares both.

const FEWEST = 6; // repeats that are folded
const MOST_KINDS = 64; // kinds of rows that are remembered
const MOST_EXCHANGES = 1000; // exchanges that are remembered because their response may still come
const MOST_LEFT_OUT = 100_000; // rows without a line of their own

/** The key that repeated rows have in common; null for a row that is always shown. */
function kindOf(row) {
  const place = `${row.event} ${row.node} ${row.connection} `;
  if (row.event === "request" || (row.event === "reply" && !row.errors.length)) return place + row.api + row.about.join(",");
  if (row.event === "fetch" && !row.code) return `${place}${row.topic}-${row.partition}`;
  if ((row.event === "produce" || row.event === "shadow") && row.verdict === "accepted" && !row.note && row.agrees !== false)
    return `${place}${row.topic}-${row.partition} ${row.producer_id} ${row.producer_epoch}`;
  return null;
}

const API_OF = { fetch: "Fetch", produce: "Produce", shadow: "Produce" };

/** Rows that repeat earlier rows: how many, of which APIs, until when. */
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

const exchangeOf = (row) => (row.correlation_id >= 0 ? `${row.node} ${row.connection} ${row.correlation_id}` : "");

/** Chooses the rows that stand for an exchange: its verdicts, or else its response, or else its request. If the response has an
 * error that no verdict has, it is chosen, too. */
class Exchanges {
  waiting = new Map(); // the requests without a response
  instead = new Map(); // for the number of a row that is left out: the number of the row that is shown instead
  #told = new Map(); // the numbers of the latest verdicts and partitions, by exchange
  #errors = new Map();

  /** Takes a new row; returns the rows to show now. */
  take(row) {
    const exchange = exchangeOf(row);
    if (row.event === "connection" && row.change === "closed") return [...this.#unanswered(row), row];
    if (row.event === "request") { this.waiting.set(exchange, row); return []; }
    if (!exchange || row.event === "fault") return [row];
    const asked = this.waiting.get(exchange);
    this.waiting.delete(exchange);
    if (row.event === "reply") {
      const told = this.#told.get(exchange), known = this.#errors.get(exchange) ?? [];
      this.#told.delete(exchange);
      this.#errors.delete(exchange);
      const shown = told !== undefined && row.errors.every((error) => known.includes(error)) ? told : row.id;
      if (asked) this.#leaveOut(asked.id, shown);
      if (shown === row.id) return [row];
      this.#leaveOut(row.id, shown);
      return [];
    }
    if (asked) this.#leaveOut(asked.id, row.id);
    if (row.event === "unsupported") return [row];
    this.#told.set(exchange, row.id);
    if (row.code) this.#errors.set(exchange, [...this.#errors.get(exchange) ?? [], row.error]);
    if (this.#told.size > MOST_EXCHANGES) for (const each of [this.#told, this.#errors]) each.delete(this.#told.keys().next().value);
    return [row];
  }

  /** The requests of a closed connection that got no response. They are forgotten. */
  #unanswered({ node, connection }) {
    const left = [...this.waiting].filter(([, row]) => row.node === node && row.connection === connection);
    for (const [exchange] of left) this.waiting.delete(exchange);
    return left.map(([, row]) => row);
  }

  #leaveOut(id, shown) {
    this.instead.set(id, shown);
    if (this.instead.size > MOST_LEFT_OUT) this.instead.delete(this.instead.keys().next().value);
  }
}

/** The lines of rows, kept up to date as rows are added: rows and folds. With `brief`, each exchange has one line if possible. */
export class Lines {
  entries = [];
  #exchanges = null;
  #kinds = new Set();
  #repeats = []; // the latest rows, if they repeat earlier rows
  #fold = null; // the fold at the end of the entries; the rows of an open fold follow it

  constructor(brief = false) { if (brief) this.#exchanges = new Exchanges(); }

  /** The lines, and below them the requests that wait for a response. */
  get all() { return this.#exchanges?.waiting.size ? this.entries.concat([...this.#exchanges.waiting.values()]) : this.entries; }

  add(row) {
    if (!this.#exchanges) this.#add(row);
    else for (const each of this.#exchanges.take(row)) this.#add(each);
  }

  #add(row) {
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

  /** Show the rows of a fold, or hide them. */
  toggle(fold) {
    const at = this.entries.indexOf(fold);
    if (at < 0) return;
    fold.open = !fold.open;
    if (fold.open) this.entries = this.entries.slice(0, at + 1).concat(fold.rows, this.entries.slice(at + 1));
    else this.entries.splice(at + 1, fold.rows.length);
  }

  /** The index of the line with a row, or of the row's fold if the fold is closed, or −1 if no line shows the row. */
  at(wanted) {
    const id = this.#exchanges?.instead.get(wanted) ?? wanted;
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
