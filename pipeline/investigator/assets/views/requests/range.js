/** The time range of requests: by default the last hour, with live updates. */

import { html, noChange, nothing } from "../../packages/lit-html/lit-html.js";
import { stretch } from "../../state.js";
import { edited, local, parsed } from "../../time.js";

const RANGES = [
  ["15 min", 900],
  ["1 h", 3600],
  ["4 h", 14400],
  ["24 h", 86400],
];

/** The API's default. */
const DEFAULT = 3600;

/** The time range for the API. */
export function asked(params) {
  return stretch(params);
}

/** Whether the range includes new requests. */
export function isLive(params) {
  return stretch(params).to === undefined;
}

/** The selection of a time range. */
export function rangeChoice({ page, services }) {
  const { from, to } = asked(page.params);
  const preset = from === undefined && to === undefined;
  const [begin, end] = [from ?? services?.from, to ?? services?.to];
  const change = (name) => (event) => {
    const ts = parsed(event.target.value);
    if (ts !== undefined) page.go({ from: begin, to: end, [name]: ts });
  };
  return html`<form class="requests-tools" @submit=${(event) => event.preventDefault()} aria-label="Time range">
    ${RANGES.map(
      ([label, span]) => html`<button type="button" aria-pressed=${preset && span === DEFAULT ? "true" : "false"} @click=${() => page.go({ from: span === DEFAULT ? undefined : Math.floor(page.now) - span, to: undefined })}>Last ${label}</button>`,
    )}
    ${begin === undefined
      ? nothing
      : html`<label>from <input id="requests-from" type="datetime-local" step="1" .value=${edited("requests-from") ? noChange : local(begin)} @change=${change("from")} /></label>
          <label>to <input id="requests-to" type="datetime-local" step="1" .value=${edited("requests-to") ? noChange : local(end)} @change=${change("to")} /></label>`}
    <span class="muted">${to === undefined ? "live" : ""}</span>
  </form>`;
}
