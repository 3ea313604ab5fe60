// The chosen rows as files.

import { h, sent } from "./dom.js";

const MOST = 20_000; // rows in one request
const SAYING = new Set(["produce", "shadow", "reply", "fault", "transaction"]);

/** For each kind of export, the function that saves its file. */
export const EXPORTS = {
  async lines(feed) {
    if (feed.run.of === "file") { download("export/lines", feed); return; }
    save("trace.jsonl", feed.chosen.map((row) => `${JSON.stringify(plain(row))}\n`));
  },
  async capture(feed) {
    if (feed.run.of === "file") { save("trace.pcapng", [await (await sent("GET", filtered("export/capture", feed))).blob()]); return; }
    const exchanges = few(exchangesOf(feed), "exchanges").map(({ number, remarks }) => ({ number, remarks }));
    save("trace.pcapng", [await (await sent("POST", "export/capture", { run: feed.run.run, exchanges })).blob()]);
  },
  async scenario(feed) {
    if (feed.run.of === "file") { save("recorded.toml", [await (await sent("GET", filtered("export/scenario", feed))).blob()]); return; }
    const rows = few(feed.chosen.filter((row) => SAYING.has(row.event)), "rows").map(plain);
    save("recorded.toml", [await (await sent("POST", "export/scenario", { rows })).blob()]);
  },
};

/** The path of an export from a saved file. The control makes this export, because the page does not have all rows of the file. */
const filtered = (path, feed) => `${path}?where=${encodeURIComponent(feed.where)}`;

/** Download a large file without loading it into the page. */
function download(path, feed) {
  h("a", { href: `../${filtered(path, feed)}`, download: "trace.jsonl" }).click();
}

const plain = ({ id, parts, ...row }) => row;
const keyOf = (row) => (row.correlation_id >= 0 ? `${row.node} ${row.connection} ${row.correlation_id}` : null);

function few(found, what) {
  if (found.length > MOST) throw new Error(`these are ${found.length.toLocaleString("en")} ${what}, and a file can have ${MOST.toLocaleString("en")}: choose fewer with a filter`);
  return found;
}

/** The exchanges of the chosen rows, with their verdicts and faults as remarks. */
function exchangesOf(feed) {
  const remarks = new Map(feed.chosen.map(keyOf).filter((key) => key !== null).map((key) => [key, []]));
  const found = [];
  for (const row of feed.rows) {
    const said = remarks.get(keyOf(row));
    if (!said) continue;
    if (row.verdict) said.push(`${row.topic}-${row.partition} ${row.verdict}: ${row.explain}`);
    if (row.event === "fault") said.push(`fault: ${row.rule}`);
    if (row.event === "reply" && feed.number(row)) found.push({ number: feed.number(row), remarks: said });
  }
  return found;
}

function save(name, parts) {
  const link = h("a", { href: URL.createObjectURL(new Blob(parts)), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
