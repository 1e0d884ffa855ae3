/** From when to when requests are looked at: the last hour and what comes, unless the address says otherwise. */

import { html, noChange, nothing } from "../../packages/lit-html/lit-html.js";
import { stretch } from "../../state.js";
import { edited, local, parsed } from "../../time.js";

const RANGES = [
  ["15 min", 900],
  ["1 h", 3600],
  ["4 h", 14400],
  ["24 h", 86400],
];

/** What the API takes where nothing is said. */
const USUAL = 3600;

/** What is asked of the API. */
export function asked(params) {
  return stretch(params);
}

/** Whether what comes belongs to it. */
export function isLive(params) {
  return stretch(params).to === undefined;
}

/** The choice of a stretch of time. */
export function rangeChoice({ page, services }) {
  const { from, to } = asked(page.params);
  const usual = from === undefined && to === undefined;
  const [begin, end] = [from ?? services?.from, to ?? services?.to];
  const change = (name) => (event) => {
    const ts = parsed(event.target.value);
    if (ts !== undefined) page.go({ from: begin, to: end, [name]: ts });
  };
  return html`<form class="requests-tools" @submit=${(event) => event.preventDefault()} aria-label="Which time">
    ${RANGES.map(
      ([label, span]) => html`<button type="button" aria-pressed=${usual && span === USUAL ? "true" : "false"} @click=${() => page.go({ from: span === USUAL ? undefined : Math.floor(page.now) - span, to: undefined })}>Last ${label}</button>`,
    )}
    ${begin === undefined
      ? nothing
      : html`<label>from <input id="requests-from" type="datetime-local" step="1" .value=${edited("requests-from") ? noChange : local(begin)} @change=${change("from")} /></label>
          <label>to <input id="requests-to" type="datetime-local" step="1" .value=${edited("requests-to") ? noChange : local(end)} @change=${change("to")} /></label>`}
    <span class="muted">${to === undefined ? "and what comes" : ""}</span>
  </form>`;
}
