/** Parts of several tabs: resources of metrics, missing steps, and the selection of a performance metric. */

import { printable } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";

const ICONS = {
  cpu: svg`<path d="M4 4h8v8H4zM6.5 1v3m3-3v3m-3 8v3m3-3v3M1 6.5h3m-3 3h3m8-3h3m-3 3h3" />`,
  memory: svg`<path d="M1 4h14v7H1zM4 6.5v2m4-2v2m4-2v2M3.5 11v2m3-2v2m3-2v2m3-2v2" />`,
  disk: svg`<ellipse cx="8" cy="4" rx="6" ry="2.5" /><path d="M2 4v8c0 1.4 2.7 2.5 6 2.5s6-1.1 6-2.5V4M2 8c0 1.4 2.7 2.5 6 2.5S14 9.4 14 8" />`,
  network: svg`<path d="M6 1.5h4v4H6zM1.5 10.5h4v4h-4zM10.5 10.5h4v4h-4zM8 5.5V8M3.5 10.5V8h9v2.5" />`,
  lock: svg`<path d="M3 7h10v7.5H3zM5 7V4.5a3 3 0 0 1 6 0V7" />`,
  "": svg`<circle cx="8" cy="8" r="6" /><path d="M6 6.3a2 2 0 1 1 2 2.2v1M8 11.6v.2" />`,
};

/** The icon and the name of a resource. */
export function resource(metric) {
  return html`<span class="applications-resource"
    ><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${ICONS[metric.resource]}</svg> ${metric.resource_named}</span
  >`;
}

/** The missing steps, each with a command. */
export function steps(those) {
  if (!those.length) return nothing;
  return html`<ul class="applications-steps">
    ${those.map((each) => html`<li>${sentence(capital(each.lacks))}${each.do ? html`:<pre><code>${each.do}</code></pre>` : "."}</li>`)}
  </ul>`;
}

/** The selection of a performance metric with models. */
export function choice(view, performances, chosen) {
  if (performances.length < 2) return nothing;
  return html`<label
    >Performance
    <select @change=${(event) => view.page.go({ performance: event.target.value, model: undefined, metric: undefined })}>
      ${performances.map((each) => html`<option value=${each} ?selected=${each === chosen}>${printable(each)}</option>`)}
    </select></label
  >`;
}

/** The times of new models as marks of a chart, with the reason unless the model only grew. */
export function built(rebuilt, labeled = true) {
  return rebuilt.map((each) => ({ ts: each.ts, label: labeled && each.reason !== "grown" ? each.reason : "" }));
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** R²; a model below 0 is useless, whatever its value. */
export function share(r2) {
  return r2 === null ? "-" : r2 < 0 ? "below 0" : r2.toFixed(2);
}

/** A p-value, in scientific notation below 0.001. */
export function chance(p) {
  return p === null ? "-" : p < 0.001 ? p.toExponential(1) : p.toFixed(3);
}
