// Converts the arrays that arrive to row objects, and rows to words. wirebroker/trace/rows.py has the same words; a test compares them.

const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"];
const SEQUENCES = 2 ** 31;
const MIDDLE = 37; // columns of the request

const range = (first, last) => (first === last ? `${first}` : `${first}–${last}`);
const thousands = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const spread = (left, right) => left + right.padStart(Math.max(MIDDLE - left.length, right.length + 1));
const more = (about) => (about.length > 1 ? `and ${about.slice(1).join(", ")}` : "");

/** Converts an array to a row; `columns` and `accepted` belong to the run. */
export function rowOf(values, id, { columns, accepted }) {
  const event = values[0], names = columns[event];
  const row = { id, event };
  for (let at = 0; at < names.length; at++) row[names[at]] = values[at + 1];
  return event === "stored" ? produced(row, accepted) : row;
}

/** Makes the verdict on a batch that was stored normally from the 13 fields of the batch's header. */
function produced({ id, time, node, connection, client_id, software, version, correlation_id, acks, topic, partition, base_offset, rule, header, window, principal, client_host }, accepted) {
  const [, length, , , , attributes, delta, , , producer_id, producer_epoch, base, count] = header;
  const idempotent = producer_id >= 0;
  const first_sequence = idempotent ? base : -1;
  const last_sequence = first_sequence < 0 ? -1 : (base + delta) % SEQUENCES;
  const last = base < 0 ? -1 : (base + delta) % SEQUENCES;
  const came = !idempotent && base < 0 ? "the batch" : base === last ? `sequence ${base}` : `sequences ${range(base, last)}`;
  const who = `${idempotent ? `producer ${producer_id} epoch ${producer_epoch}` : "a producer without an id"} on ${topic}-${partition}`;
  const words = { came, who, are: base === last || (!idempotent && base < 0) ? "is" : "are" };
  const stored = base_offset >= 0 ? `stored at offset ${base_offset}` : "accepted";
  return {
    id, event: "produce", time, node, connection, client_id, software, principal, client_host, version, correlation_id, acks, topic, partition, producer_id, producer_epoch,
    first_sequence, last_sequence, records: Math.max(count, 0), bytes: length + 12, compression: CODECS[attributes & 7] ?? "?",
    transactional: (attributes & 16) !== 0, verdict: "accepted", rule, code: 0, error: "NONE", base_offset,
    note: idempotent && acks !== -1 ? `idempotent with acks=${acks}` : "",
    explain: `${stored}: ${accepted[rule].replace(/{(\w+)}/g, (_, word) => words[word])}`, window,
  };
}

/** The row in words: the topic or group, the request, the outcome in a word, and the rest. */
export function partsOf(row) {
  return row.parts ?? WORDS[row.event](row);
}

/** The remarks on a response: the coordinator that it names, the throttle time, and the time for which the request waited. */
function remarks({ details, throttle_time_ms, waited, latency }) {
  const throttled = throttle_time_ms > 0 ? `throttled for ${throttle_time_ms} ms` : "";
  return [details.coordinator, throttled, waited > 0 && latency > waited ? `waited for ${waited} ms` : ""].filter(Boolean).join(", ");
}

const WORDS = {
  produce(row) {
    const who = row.producer_id >= 0 ? `pid ${row.producer_id}/${row.producer_epoch}` : "no pid";
    const sequences = row.first_sequence >= 0 ? `seq ${row.first_sequence}–${row.last_sequence}` : "–";
    const middle = `${who.padEnd(12)} ${sequences.padEnd(14)} ${String(row.records).padStart(5)} rec `;
    return [`${row.topic}-${row.partition}`, middle, row.verdict, `${row.explain}${row.note ? `  [${row.note}]` : ""}`];
  },
  shadow(row) {
    const [place, middle, verdict, rest] = WORDS.produce(row);
    return [place, middle, verdict, row.agrees === false ? `PREDICTED ${row.predicted.toUpperCase()}: ${rest}` : rest];
  },
  request: (row) => [row.about[0] ?? "", spread(`${row.api} v${row.version}`, `${thousands(row.bytes)} B`), "asked", more(row.about)],
  reply(row) {
    const middle = spread(`${row.api} v${row.version}`, `${row.latency} ms ${thousands(row.bytes)} B`);
    const stages = row.upstream_us < 0 ? "" : `broker ${thousands(row.upstream_us)} µs, transfer ${thousands(row.transfer_us)}, proxy ${thousands(row.proxy_us)}`;
    const rest = [row.errors.join(", "), row.messages.join(", "), more(row.about), remarks(row), stages].filter(Boolean).join("  ");
    return [row.about[0] ?? "", middle, row.errors.length ? "error" : "answered", rest];
  },
  fetch(row) {
    const stable = row.committed ? `, stable ${row.last_stable_offset}` : "";
    const rest = row.code ? row.error : `high watermark ${row.high_watermark}${stable}`;
    return [`${row.topic}-${row.partition}`, spread(`from ${row.offset}`, `${thousands(row.bytes)} B`), row.code ? "error" : "fetched", rest];
  },
};
