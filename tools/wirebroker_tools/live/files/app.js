// The frame of the page: views, the filter, the level of the trace, keys. The address holds the view, the filter and the row.

import { ask, h, time } from "./dom.js";
import { EXPORTS } from "./exports.js";
import { Feed } from "./feed.js";
import { strip, takeFiles } from "./saved.js";
import * as clients from "./views/clients.js";
import * as exchanges from "./views/exchanges.js";
import * as explain from "./views/explain.js";
import * as faults from "./views/faults.js";
import * as groups from "./views/groups.js";
import * as log from "./views/log.js";
import * as producers from "./views/producers.js";
import * as sequence from "./views/sequence.js";
import * as transactions from "./views/transactions.js";

const VIEWS = { exchanges, sequence, log, producers, transactions, groups, clients, faults, explain };
const POLL_MS = 1000;
const TYPING_MS = 300;
const DRAW_MS = 250; // a view that is not drawn in each frame is drawn at this interval
const byId = (id) => document.getElementById(id);
const LIVE = new Set(["producers", "faults"]); // views that exist for a running broker, but not for a file
const feed = new Feed();
let view = null; // the open view: {element, update? (in each frame), walk? and draw? (at times), poll?, key?}
let drawn = -DRAW_MS, waiting = 0, stale = true; // when the view was last drawn; whether a poll has found a change since then
let name = "";

/** The view and the parameters (after ?) in the page's address. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?(timeline\b)?/, (_, old) => (old ? "log" : "")).split("?"); // timeline: the former name of log
  return { path: VIEWS[path] ? path : "exchanges", words: new URLSearchParams(query) };
}

/** Change parameters in the page's address without leaving the view; an empty parameter is removed. */
export function remember(changes) {
  const { path, words } = place();
  for (const [key, value] of Object.entries(changes)) if (value === "" || value === null) words.delete(key); else words.set(key, value);
  history.replaceState(null, "", `#/${path}${words.size ? `?${words}` : ""}`);
}

function open() {
  const { path, words } = place();
  const where = words.get("where") ?? "";
  if (byId("where").value !== where) byId("where").value = where;
  choose(where);
  if (path !== name) {
    name = path;
    drawn = -DRAW_MS;
    polled = "";
    stale = true;
    view = VIEWS[path].open({ feed, words, remember, ask });
    byId("view").replaceChildren(view.element);
    byId("view").focus({ preventScroll: true });
  } else view.moved?.(words);
  for (const link of byId("views").children) link.toggleAttribute("aria-current", link.textContent === name);
  update();
  poll();
}

let chosen = null;
async function choose(where) {
  if (where === chosen) return;
  chosen = where;
  try {
    const { tree } = await ask("GET", `filter?where=${encodeURIComponent(where)}`);
    if (where !== chosen) return;
    byId("wrong").textContent = "";
    feed.choose(tree, where);
    remember({ where });
  } catch (wrong) {
    if (where === chosen) byId("wrong").textContent = wrong.message;
  }
}

let choosing = 0;
/** Apply the filter that the user types. A file is searched only when the user pauses. */
function typed(where) {
  clearTimeout(choosing);
  if (feed.run.of === "file" && where) choosing = setTimeout(() => choose(where), TYPING_MS); else choose(where);
}

function update() {
  const missed = feed.missed ? `, ${feed.missed.toLocaleString("en")} missed` : "";
  const { file } = feed;
  const some = feed.chosen.length < feed.rows.length ? `${feed.chosen.length.toLocaleString("en")} of ` : "";
  byId("state").textContent = feed.state === "live" ? `${some}${feed.rows.length.toLocaleString("en")} row${feed.rows.length === 1 ? "" : "s"}${missed} · ${feed.run.of}`
    : feed.state === "lost" ? "the connection is lost; trying again" : "connecting …";
  byId("state").className = feed.state === "live" ? "" : "bad";
  byId("problem").textContent = feed.state === "lost" ? `Nothing has answered at ${location.host} since ${time(feed.lost)}. The rows stay, and new rows appear when the address answers again.` : feed.problem && `${feed.problem}.`;
  byId("traced").hidden = feed.run.of === "file";
  for (const link of byId("views").children) link.hidden = feed.run.of === "file" && LIVE.has(link.textContent);
  if (file) byId("state").textContent = feed.state === "live" ? `${feed.rows.length.toLocaleString("en")} of ${(feed.where ? file.found : file.rows).toLocaleString("en")} rows are loaded` : byId("state").textContent;
  updateStrip();
  view?.update?.();
  if (view?.walk && !view.walk.go()) requestAnimationFrame(update);
  else if (view?.draw && (stale || view.walk?.changed)) draw();
}

function draw() {
  const wait = drawn + DRAW_MS - performance.now();
  if (wait > 0) {
    waiting ||= setTimeout(() => { waiting = 0; update(); }, wait);
    return;
  }
  drawn = performance.now();
  stale = false;
  if (view.walk) view.walk.changed = false;
  view.draw();
}

let polled = "";
async function poll() {
  const asked = view;
  if (!asked?.poll || feed.state === "lost" || (feed.run.of === "file" && name !== "explain") || document.hidden) return;
  const found = JSON.stringify(await asked.poll().catch(() => polled));
  if (asked !== view || found === polled) return; // draw a view only if it has changed, so that selected text stays selected
  polled = found;
  stale = true;
  update();
}

async function showLevel() {
  if (feed.run.of === "file") return;
  try { byId("level").value = (await ask("GET", "trace/level")).level; } catch { /* the control is gone again; its next run asks again */ }
}

const typing = () => ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.activeElement === byId("where") && byId("where").value) {
    event.preventDefault(); // the browser would empty the box without an `input` event
    byId("where").value = "";
    choose("");
    return;
  }
  if (event.key === "Escape") document.activeElement?.blur();
  else if (typing()) return;
  if (event.key === "/") { event.preventDefault(); byId("where").focus(); return; }
  const number = Number(event.key);
  if (number >= 1 && number <= Object.keys(VIEWS).length) location.hash = `#/${Object.keys(VIEWS)[number - 1]}`;
  else view?.key?.(event);
}

byId("views").append(...Object.keys(VIEWS).map((each, index) => h("a", { href: `#/${each}`, title: `key ${index + 1}` }, each)));
byId("bar").addEventListener("submit", (event) => event.preventDefault());
byId("where").addEventListener("input", (event) => typed(event.target.value));
byId("level").addEventListener("change", (event) => ask("POST", "trace/level", { level: event.target.value }).catch((wrong) => { byId("wrong").textContent = wrong.message; }));
byId("export").addEventListener("click", async ({ target }) => {
  if (!(target.value in EXPORTS)) return;
  byId("export").open = false;
  byId("wrong").textContent = "";
  try { await EXPORTS[target.value](feed); } catch (wrong) { byId("wrong").textContent = wrong.message; }
});
addEventListener("hashchange", open);
addEventListener("keydown", key);
feed.addEventListener("rows", update);
feed.addEventListener("begins", showLevel);
takeFiles(byId("open").querySelector("input"), (said) => { byId("wrong").textContent = said; });
const updateStrip = strip(feed, byId("file"));
setInterval(poll, POLL_MS);
feed.near = Number(place().words.get("row")) || 0;
feed.where = place().words.get("where") ?? "";
open();
feed.connect();
