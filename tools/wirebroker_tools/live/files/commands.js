// Commands for a shell. Names come from clients, so each name is quoted: otherwise the shell could run a part of a name as a
// command.

import { h } from "./dom.js";

/** Quotes a value for a shell command. The value may begin with `-`, so write it after `=`. */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Commands with a heading and a remark. The heading `what` says what the commands do. */
export const commands = (what, lines, remark) => h("div", {}, h("h2", {}, what), h("pre", {}, lines.join("\n")), h("p", { class: "note" }, remark));
