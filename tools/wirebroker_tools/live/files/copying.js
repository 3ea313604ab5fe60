// Buttons that copy a text.

import { h } from "./dom.js";

/** A button that copies what `make` returns, and then says for a moment whether copying worked. */
export function copyButton(label, make, title = null) {
  const button = h("button", { type: "button", class: "copy", title, onclick: async () => {
    const done = await copy(make());
    button.textContent = done ? "copied" : "cannot copy";
    setTimeout(() => { button.textContent = label; }, 1200);
  } }, label);
  return button;
}

/** Copy a text. Browsers open the clipboard only to a page that comes from this machine or over https. On other pages, the old `execCommand` may work. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const held = h("textarea", { class: "held", "aria-hidden": "true" });
    held.value = text;
    document.body.append(held);
    held.select();
    try { return document.execCommand("copy"); } finally { held.remove(); }
  }
}
