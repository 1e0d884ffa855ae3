/** Copies text to the clipboard, or shows a field with it if the browser forbids that. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { createRef, ref } from "../../packages/lit-html/directives/ref.js";

export class Copying {
  #text = "";
  #field = createRef();

  constructor(page) {
    this.page = page;
  }

  /** Copy a text, and show a message. */
  async copy(text, what) {
    try {
      // Browsers allow this only with TLS or on localhost.
      await navigator.clipboard.writeText(text);
      this.#text = "";
      this.page.notify(`Copied to the clipboard: ${what}`);
    } catch {
      this.#text = text;
      this.page.update();
      this.#field.value?.focus();
      this.#field.value?.select();
    }
  }

  /** The field, if the browser forbids copying. */
  render() {
    if (!this.#text) return nothing;
    return html`<div class="card incidents-copy">
      <label for="incidents-copy">The browser blocks access to the clipboard. Copy this text:</label>
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
