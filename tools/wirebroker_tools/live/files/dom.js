// Elements with text. Data of clients becomes only text nodes and values of attributes, never markup. Invisible characters are
// shown as escapes.

const SVG = "http://www.w3.org/2000/svg";
const READ = ["title", "aria-label"]; // attributes that people read
const UNSEEN = /(?![ \n])[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Returns any value as text. Every value on the page is converted by this function. */
export function words(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(words).join(", ");
  if (value instanceof Map) return words(Object.fromEntries(value));
  if (value instanceof Set) return words([...value]);
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([name, each]) => `${name} ${each !== null && typeof each === "object" ? `(${words(each)})` : words(each)}`).join(", ");
}

/** Whether a value is an empty text, list or object. */
export const isEmpty = (value) => words(value) === "";

/** Returns a value as text, with JSON escapes in place of invisible characters except line ends, like wirebroker/printable.py. */
export const printable = (value) => words(value).replace(UNSEEN, (each) => [...Array(each.length).keys()].map((at) => `\\u${each.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/** An HTML element, or an SVG element if the name begins with "svg:". Children are elements, texts or numbers; null is left out. */
export function h(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : READ.includes(key) ? printable(value) : words(value));
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined).map((each) => (each instanceof Node ? each : printable(each))));
  return made;
}

/** A table with these headings; each row is a list of cells. */
export function table(headings, rows) {
  return h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, headings.map((each) => h("th", {}, each)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((each, at) => h("td", { "data-label": headings[at] }, h("div", {}, each))))))));
}

/** The advice that a view without content shows. */
export const empty = (...sentences) => h("p", { class: "empty" }, ...sentences);

const two = (number, digits = 2) => String(number).padStart(digits, "0");

/** ms since the epoch as local time, 12:30:05.250. */
export function time(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

/** Send a request to the control, and return its response. Throws an Error with the sentence of the problem. */
export async function sent(method, path, body) {
  const answer = await fetch(`../${path}`, { method, body: body === undefined || typeof body === "string" ? body : JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer;
}

/** Send a request to the control, and return the JSON of its response. Throws the errors of `sent`. */
export async function ask(method, path, body) {
  return (await sent(method, path, body)).json();
}
