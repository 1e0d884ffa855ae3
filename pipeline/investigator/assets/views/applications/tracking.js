/** Tracking: measured and predicted performance, with the models' p-values and R². */

import { get } from "../../api.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { stretch } from "../../state.js";
import { time } from "../../time.js";
import { built, capital } from "./shared.js";

const SYNC = "applications-tracking";

export async function load(view, signal) {
  return get("/applications/tracking", { application: view.application, ...stretch(view.page.params) }, signal);
}

export function render(view, data) {
  return html`
    <p class=${data.slow ? "alarm" : ""}>
      ${sentence(data.sentence)}
      ${data.incidents.filter((each) => each.to === null).map((each) => html`<a href=${view.page.href("/incidents", { id: each.id })}>Incident since ${time(each.from, true)}</a> `)}
    </p>
    ${range(view, data.ts)}
    ${data.own
      ? nothing
      : html`<p class="muted">The snapshot of its models of that time no longer exists. These models were learned again from earlier records, and may differ from the worker's.</p>`}
    ${data.ts.length ? data.tracked.map((each) => tracked(view, data, each)) : html`<section class="card">
          <p>No measurements in this time. <a href=${view.link({ tab: "configuration" })}>Show its configuration</a></p>
        </section>`}
    ${rebuilt(view, data)}
  `;
}

/** The visible time range with its buttons; `ts` are the measured intervals. */
export function range(view, ts) {
  const { from, to } = stretch(view.page.params);
  const shown = { from: from ?? ts[0], to: to ?? ts.at(-1) };
  if (shown.from === undefined) return nothing;
  const length = Math.max(shown.to - shown.from, 60);
  const live = from === undefined && to === undefined;
  const go = (begin, end) => view.page.go({ from: Math.round(begin), to: end === undefined ? undefined : Math.round(end) });
  return html`<div class="applications-range">
    <span>${time(shown.from)} to ${time(shown.to)}</span>
    <button @click=${() => go(shown.from - length, shown.from)}>Earlier</button>
    <button @click=${() => go(shown.from - length, to)}>Extend back</button>
    <button @click=${() => go(shown.to - length / 2, to)}>Zoom in</button>
    ${live ? nothing : html`<button @click=${() => view.page.go({ from: undefined, to: undefined })}>Back to now</button>`}
    <span class="muted">Drag across a chart to zoom in.</span>
  </div>`;
}

/** Zoom to the dragged range. */
export function zoom(view, { detail: { from, to } }) {
  view.page.go({ from: Math.round(from), to: Math.round(to) });
}

function tracked(view, data, each) {
  const models = data.rebuilt.filter((model) => model.performance === each.performance);
  const shared = { ts: data.ts, sync: SYNC, ...stretch(view.page.params) };
  const ranged = (event) => zoom(view, event);
  return html`<section class="card">
    <h2>${capital(each.named)}</h2>
    <laggard-chart
      .height=${200}
      .label=${`${capital(each.named)}, measured and predicted; ${models.length} new models`}
      .chart=${{
        ...shared,
        feature: each.performance,
        spans: data.incidents,
        marks: built(models),
        lines: [
          { label: "measured", values: each.value },
          { label: "predicted", values: each.predicted, dashed: true },
        ],
      }}
      @range=${ranged}
    ></laggard-chart>
    <h3>Fit of its model</h3>
    <laggard-chart
      .height=${130}
      .label=${`R² of the newest intervals, and the p-value of the newest errors, of the model of the ${each.named}`}
      .chart=${{
        ...shared,
        feature: "r2",
        marks: built(models, false),
        lines: [
          { label: "R²", values: each.r2.map((value) => (value === null ? null : Math.max(value, 0))) },
          { label: "p-value", values: each.p_value, dashed: true },
        ],
      }}
      @range=${ranged}
    ></laggard-chart>
    <p class="muted">R² is the predicted share of the variance; negative values are drawn as 0. A p-value near 0 means that the newest errors differ from earlier ones: laggard builds a new model.</p>
  </section>`;
}

function rebuilt(view, data) {
  if (!data.rebuilt.length) return nothing;
  const named = Object.fromEntries(data.tracked.map((each) => [each.performance, each.named]));
  return html`<section class="card">
    <h2>New models</h2>
    <table>
      <thead>
        <tr><th scope="col">Time</th><th scope="col">Performance</th><th scope="col">Reason</th></tr>
      </thead>
      <tbody>
        ${data.rebuilt
          .toReversed()
          .slice(0, 50)
          .map((each) => html`<tr><td>${time(each.ts)}</td><td>${named[each.performance] ?? each.performance}</td><td>${each.reason_text}</td></tr>`)}
      </tbody>
    </table>
    <p><a href=${view.link({ tab: "analysis" })}>Show their metrics</a></p>
  </section>`;
}
