// Elements with text. Data of clients becomes text nodes and attributes' values only, never markup. Invisible characters are shown.

const SVG = "http://www.w3.org/2000/svg";
const READ = ["title", "aria-label"]; // attributes for people
const UNSEEN = /(?![ \n])[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;

/** A value in words, whatever it is: every value that the page shows comes through here. */
export function words(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(words).join(", ");
  if (value instanceof Map) return words(Object.fromEntries(value));
  if (value instanceof Set) return words([...value]);
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([name, each]) => `${name} ${each !== null && typeof each === "object" ? `(${words(each)})` : words(each)}`).join(", ");
}

/** Whether a value says nothing: an empty text, list or object. */
export const isEmpty = (value) => words(value) === "";

/** The words of a value, with each character that cannot be seen as JSON writes it, as wirebroker/printable.py does; line ends stay. */
export const printable = (value) => words(value).replace(UNSEEN, (each) => [...Array(each.length).keys()].map((at) => `\\u${each.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/** An element, or one of SVG if its name begins with "svg:". Children are elements, texts or numbers; null is left out. */
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

/** What a view without content shows: advice on what to do. */
export const empty = (...sentences) => h("p", { class: "empty" }, ...sentences);

const two = (number, digits = 2) => String(number).padStart(digits, "0");

/** ms since the epoch as local time, 12:30:05.250. */
export function time(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

/** Send a request to the control; its response. Throws an Error with the problem's sentence. */
export async function sent(method, path, body) {
  const answer = await fetch(`../${path}`, { method, body: body === undefined || typeof body === "string" ? body : JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer;
}

/** Ask the control; its response as JSON. Throws as `sent` does. */
export async function ask(method, path, body) {
  return (await sent(method, path, body)).json();
}
