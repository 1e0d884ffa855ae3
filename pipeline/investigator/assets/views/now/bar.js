/** A score beside its length: what is anomalous stands out by the word's weight, the bar and its colour. */

import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { score } from "../../format.js";

/** From this score on something is anomalous. */
export const ANOMALOUS = 1;

/** A bar is full at this score; it grows with the logarithm, for scores reach from 0.01 to thousands. */
const FULL = 100;

export function scored(value) {
  if (value === null || value === undefined) return html`<span class="muted">-</span>`;
  const width = Math.min((100 * Math.log1p(Math.max(value, 0))) / Math.log1p(FULL), 100);
  const high = value >= ANOMALOUS;
  return html`<span class=${high ? "now-high" : nothing}>${score(value)}</span>
    <svg class="now-bar ${high ? "now-bar-high" : ""}" viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
      ${svg`<rect width=${width} height="3"></rect>`}
    </svg>`;
}
