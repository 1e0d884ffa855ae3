/** Copying text to the clipboard; where the browser does not allow that, a field to copy it from. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { createRef, ref } from "../../packages/lit-html/directives/ref.js";

export class Copying {
  #text = "";
  #field = createRef();

  constructor(page) {
    this.page = page;
  }

  /** Copy, and say that it was done. */
  async copy(text, what) {
    try {
      // Only where the page is served by TLS, or on the machine itself.
      await navigator.clipboard.writeText(text);
      this.#text = "";
      this.page.notify(`${what} is on the clipboard`);
    } catch {
      this.#text = text;
      this.page.update();
      this.#field.value?.focus();
      this.#field.value?.select();
    }
  }

  /** The field, where one is needed. */
  render() {
    if (!this.#text) return nothing;
    return html`<div class="card incidents-copy">
      <label for="incidents-copy">This browser does not let the page copy. Copy it from here:</label>
      <textarea id="incidents-copy" readonly rows="6" .value=${this.#text} ${ref(this.#field)}></textarea>
      <button
        type="button"
        @click=${() => {
          this.#text = "";
          this.page.update();
        }}
      >
        Close
      </button>
    </div>`;
  }
}
