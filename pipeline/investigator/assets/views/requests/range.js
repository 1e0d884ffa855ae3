/** From when to when requests are looked at: the last hour and what comes, unless the address says otherwise. */

import { live } from "../../packages/lit-html/directives/live.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { number } from "../../state.js";

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
  return { from: number(params, "from"), to: number(params, "to") };
}

/** Whether what comes belongs to it. */
export function isLive(params) {
  return number(params, "to") === undefined;
}

/** The choice of a stretch of time. */
export function rangeChoice({ page, services }) {
  const { from, to } = asked(page.params);
  const usual = from === undefined && to === undefined;
  const [begin, end] = [from ?? services?.from, to ?? services?.to];
  const change = (name) => (event) => {
    const ts = new Date(event.target.value).getTime() / 1000;
    if (Number.isFinite(ts)) page.go({ from: begin, to: end, [name]: ts });
  };
  return html`<form class="requests-tools" @submit=${(event) => event.preventDefault()} aria-label="Which time">
    ${RANGES.map(
      ([label, span]) => html`<button type="button" aria-pressed=${usual && span === USUAL ? "true" : "false"} @click=${() => page.go({ from: span === USUAL ? undefined : now(page) - span, to: undefined })}>Last ${label}</button>`,
    )}
    ${begin === undefined
      ? nothing
      : html`<label>from <input type="datetime-local" step="1" .value=${live(local(begin))} @change=${change("from")} /></label>
          <label>to <input type="datetime-local" step="1" .value=${live(local(end))} @change=${change("to")} /></label>`}
    <span class="muted">${to === undefined ? "and what comes" : ""}</span>
  </form>`;
}

/** By the clock of laggard, from which that of the viewer may differ. */
const now = (page) => Math.floor(page.cluster.now);

/** As the input takes it, in the viewer's zone. */
function local(ts) {
  const at = new Date(ts * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
