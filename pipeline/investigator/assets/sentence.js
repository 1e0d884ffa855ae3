/** Sentences as the server tells them. */

import { html } from "./packages/lit-html/lit-html.js";

/** A sentence; what stands in backquotes is code. */
export function sentence(text) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
