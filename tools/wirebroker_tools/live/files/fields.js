// Filters, as trees that the control has parsed. The same rules as in wirebroker/trace/filters.py; a test compares them.

const IN_NAME = /^([^]*)-(\d+)$/;
const API_OF = { produce: "Produce", shadow: "Produce", fetch: "Fetch" };
/** The properties of a row that are not fields of its event. */
export const BESIDE_FIELDS = new Set(["id", "event", "parts"]);
const LONGEST = 60; // longer texts seldom repeat

/** The values of a field as a list: none, one or several. */
const several = (value) => (value === null || value === undefined ? [] : typeof value === "object" ? Object.values(value) : [value]);

/** The names in a request: of topics, groups and transactions. */
function about(row) {
  if (row.event === "topic") return [];
  return Array.isArray(row.partitions) && row.partitions.length ? row.partitions : row.about ?? [];
}

/** Topics and partitions that a row names, as pairs. */
export function topics(row) {
  if (row.topic !== undefined) return [[row.topic, row.partition ?? null]];
  const struck = row.batch ? [[row.batch.topic, row.batch.partition]] : []; // the batch that a fault struck
  return struck.concat(about(row).flatMap(placesOf));
}

const places = new Map(); // many rows have the same few names
const MOST_PLACES = 20_000;

/** The topics and partitions that a name in a request can mean. */
function placesOf(name) {
  const known = places.get(name);
  if (known) return known;
  const match = IN_NAME.exec(name);
  const found = name.includes(" ") ? [] : match ? [[name, null], [match[1], Number(match[2])]] : [[name, null]];
  if (places.size >= MOST_PLACES) places.clear();
  places.set(name, found);
  return found;
}

const named = (row, field, prefix) => [...several(row[field]), ...about(row).filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))];

const NAMES = {
  event: (row) => [row.event],
  api: (row) => several(API_OF[row.event] ?? row.api),
  topic: (row) => topics(row).map(([topic]) => topic),
  partition: (row) => topics(row).map(([, index]) => index).filter((index) => index !== null),
  group: (row) => named(row.event === "group" ? row : { ...row, group: undefined }, "group", "group "),
  transaction: (row) => named(row.event === "transaction" ? row : { ...row, transactional_id: undefined }, "transactional_id", "transaction "),
  connection: (row) => several(row.connection),
  producer: (row) => several((row.batch ?? row).producer_id),
  client: (row) => several(row.client_id),
  latency: (row) => (row.latency === undefined ? [] : [row.latency - row.waited]),
  host: (row) => several(row.client_host),
  error: (row) => (row.event === "reply" ? (row.errors.length ? row.errors : ["NONE"]) : several(row.error)),
};

export const values = (row, field) => (NAMES[field] ? NAMES[field](row) : several(row[field] ?? row.details?.[field]));

/** Whether a field of a row contains this text. Many rows have the same few texts, so each text is searched once. */
function hasWord(word) {
  const known = new Map();
  const maybeNumber = /^[-\d.e+]*$/.test(word);
  const inText = (text) => {
    if (text.length > LONGEST) return text.toLowerCase().includes(word);
    let found = known.get(text);
    if (found === undefined) known.set(text, found = text.toLowerCase().includes(word));
    return found;
  };
  const has = (value) => {
    if (typeof value === "string") return inText(value);
    if (typeof value === "number") return maybeNumber && String(value).includes(word);
    if (value === null || value === undefined) return false;
    return typeof value === "object" ? Object.values(value).some(has) : inText(String(value));
  };
  const fields = {}; // all rows of an event have the same fields, and a field is a number in all of them or in none
  const wanted = (row, name) => (name === "event" || !BESIDE_FIELDS.has(name)) && (maybeNumber || typeof row[name] !== "number");
  return (row) => {
    const names = fields[row.event] ??= Object.keys(row).filter((name) => wanted(row, name));
    for (const name of names) if (has(row[name])) return true;
    return row.event in DERIVED && DERIVED[row.event](row).some(has);
  };
}

/** Values that no property of the row contains. A search for a text has to find them, too. */
const DERIVED = { fetch: () => ["Fetch"], produce: () => ["Produce"], shadow: () => ["Produce"], reply: (row) => NAMES.error(row) };

const COMPARE = {
  "=": (value, wanted) => String(value).toLowerCase() === wanted,
  "~": (value, wanted) => String(value).toLowerCase().includes(wanted),
  "<": (value, wanted) => typeof value === "number" && value < Number(wanted),
  "<=": (value, wanted) => typeof value === "number" && value <= Number(wanted),
  ">": (value, wanted) => typeof value === "number" && value > Number(wanted),
  ">=": (value, wanted) => typeof value === "number" && value >= Number(wanted),
};

/** If a row has a property of one of these names, the field has only this value. Then no list of values is made. */
const SINGLE = new Set(["topic", "partition", "offset", "version", "bytes", "proxy_us", "upstream_us", "transfer_us"]);

/** Returns a function that tells whether a row meets the filter. */
export function met([kind, ...rest]) {
  if (kind === "word") return hasWord(rest[0]);
  if (kind === "not") { const inner = met(rest[0]); return (row) => !inner(row); }
  if (kind === "all") { const parts = rest.map(met); return (row) => parts.every((part) => part(row)); }
  if (kind === "any") { const parts = rest.map(met); return (row) => parts.some((part) => part(row)); }
  const [field, operator, wanted] = rest;
  const denied = operator.startsWith("!");
  const compare = COMPARE[denied ? operator.slice(1) : operator];
  const known = new Map();
  const holds = (value) => {
    if (typeof value !== "string") return compare(value, wanted);
    let found = known.get(value);
    if (found === undefined) known.set(value, found = compare(value, wanted));
    return found;
  };
  if (field === "error" && wanted === "none") return (row) => { const found = values(row, field); return found.length > 0 && found.some(holds) !== denied; };
  if (SINGLE.has(field)) return (row) => (row[field] === undefined ? values(row, field).some(holds) : holds(row[field])) !== denied;
  return (row) => values(row, field).some(holds) !== denied;
}

const NEAREST = 0.4; // at most this part of a word's letters may be wrong in a misspelt word
const LOOKED_AT = 20_000; // how many rows are searched for similar values

/** The filter with a misspelt value replaced by the most similar value of some row, or "" if no value is similar. */
export function similar(where, rows) {
  for (const [whole, field, operator, given] of where.matchAll(/([\w]+)(=|~)"?([^\s()"]+)"?/g)) {
    const wanted = given.toLowerCase();
    const known = new Set(rows.slice(-LOOKED_AT).flatMap((row) => values(row, field)).map(String));
    if ([...known].some((each) => COMPARE[operator](each, wanted))) continue;
    const [best] = [...known].map((each) => [distance(each.toLowerCase(), wanted), each]).filter(([by]) => by <= Math.max(wanted.length * NEAREST, 1)).sort(([one], [other]) => one - other);
    if (best) return where.replace(whole, `${field}${operator}${/[\s()"]/.test(best[1]) ? `"${best[1]}"` : best[1]}`);
  }
  return "";
}

/** The number of letters to change in one word, so that it becomes the other word. */
function distance(one, other) {
  if (Math.abs(one.length - other.length) > 10 || one.length > 100) return Infinity;
  let row = [...Array(other.length + 1).keys()];
  for (let at = 1; at <= one.length; at++) {
    const next = [at];
    for (let to = 1; to <= other.length; to++) next.push(Math.min(row[to] + 1, next[to - 1] + 1, row[to - 1] + (one[at - 1] !== other[to - 1])));
    row = next;
  }
  return row[other.length];
}
