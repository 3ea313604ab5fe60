// Commands for a shell. Names come from clients, so each is quoted: a pasted command must not run what a client has named.

import { h } from "./dom.js";

/** A value in a shell command, to be written after `=`: it may begin with `-`. */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Commands with what they do, and a remark. */
export const commands = (what, lines, remark) => h("div", {}, h("h2", {}, what), h("pre", {}, lines.join("\n")), h("p", { class: "note" }, remark));
