/** Scores with a bar, relative to the greatest. */

import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { score } from "../../format.js";

/** The alert level. */
const ANOMALOUS = 1;

/** The score of a row: its bar is full at the greatest score, or at the alert level if that is greater. */
export function scored(value, greatest) {
  return bar(value, value / Math.max(greatest, ANOMALOUS), value >= ANOMALOUS);
}

/** The score of a feature, with a logarithmic bar, since it may be hundreds. */
export function featureScored(value, greatest) {
  return bar(value, Math.log1p(Math.max(value, 0)) / Math.log1p(Math.max(greatest, ANOMALOUS)), false);
}

/** The greatest of some scores. */
export function greatest(scores) {
  return scores.reduce((most, each) => Math.max(most, each ?? 0), 0);
}

function bar(value, share, high) {
  if (value === null || value === undefined) return html`<span class="muted">-</span>`;
  return html`<span class=${high ? "now-high" : nothing}>${score(value)}</span>
    <svg class="now-bar ${high ? "now-bar-high" : ""}" viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
      ${svg`<rect width=${Math.min(Math.max(100 * share, 0), 100)} height="3"></rect>`}
    </svg>`;
}
