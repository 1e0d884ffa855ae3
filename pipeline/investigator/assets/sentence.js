/** Sentences of the API as HTML. */

import { html } from "./packages/lit-html/lit-html.js";

/** Format text in backquotes as code. */
export function sentence(text) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
