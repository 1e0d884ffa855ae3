/** The time series of the selected feature. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { duration, readable, usual } from "../../format.js";
import { time } from "../../time.js";
import { seconds } from "../../state.js";
import { HOST } from "./ranking.js";

/** The ranges of the history, by their value in the address: seconds, or all. */
export const RANGES = { 900: "15 min", 3600: "1 h", 14400: "4 h", 86400: "24 h", all: "All" };
export const DEFAULT_RANGE = "14400";

/** The number of points in the table, the newest ones. */
const TABLE_ROWS = 300;

const ZOOM = 2;

/** The range of the address, as in `RANGES`; the default one if it has none. */
export function chosenRange(range) {
  return Object.hasOwn(RANGES, range) ? range : DEFAULT_RANGE;
}

/** The seconds of the range; undefined for the whole history. */
export function shownRange(range) {
  const chosen = chosenRange(range);
  return chosen === "all" ? undefined : Number(chosen);
}

export function series(view) {
  const { series: shown, feature, seriesProblem, moment } = view;
  const row = view.comparison ? view.compared(view.chosen) : view.find(view.chosen);
  const name = view.chosen === HOST ? moment.host : (row?.name ?? view.chosen);
  if (!shown) {
    return html`<section class="card now-series" aria-label="Time series">
      <h2>${feature ?? "No series"}</h2>
      <p class="muted" aria-live="polite">${seriesProblem ? seriesProblem.text : feature ? "Loading…" : "Select a feature."}</p>
    </section>`;
  }
  const { from, to } = view.range;
  const zoomed = view.page.params.from || view.page.params.to;
  return html`<section class="card now-series" aria-label="Time series of ${shown.feature}" aria-busy=${!shown.complete}>
    <div class="now-head">
      <h2><span class="now-feature">${shown.feature}</span> <span class="muted">of ${name}</span></h2>
      <div class="now-tools">
        ${shown.complete ? nothing : html`<span class="muted">loading the rest…</span>`}
        ${zoomed ? html`<button @click=${() => view.page.go({ from: undefined, to: undefined })}>Reset</button>` : nothing}
        <button aria-label="Zoom in" title="Zoom in" @click=${() => zoom(view, 1 / ZOOM)}>+</button>
        <button aria-label="Zoom out" title="Zoom out" @click=${() => zoom(view, ZOOM)}>−</button>
      </div>
    </div>
    <laggard-chart
      class="now-chart"
      .height=${0}
      .label=${label(view, shown, name)}
      .chart=${{
        feature: shown.feature,
        ts: shown.ts,
        lines: [{ label: shown.feature, values: shown.values }],
        extremes: shown.step_s > shown.tick_s * 1.5 ? { low: shown.low, high: shown.high } : undefined,
        band: shown.band ?? undefined,
        moment: moment.ts,
        other: view.comparison?.with,
        marks: shown.marks.map((mark) => ({ ts: mark.ts, label: mark.note || "marked" })),
        spans: shown.incidents,
        from,
        to,
        wheel: window.matchMedia("(min-width: 64rem)").matches,
      }}
      @pick=${(event) => view.page.go({ at: seconds(event.detail.ts) })}
      @range=${(event) => ranged(view, event.detail.from, event.detail.to, true)}
    ></laggard-chart>
    <div class="now-legend muted">
      ${shown.band ? html`<span class="now-key now-key-usual">baseline ${usual(shown.feature, shown.usual.mean, shown.usual.standard_deviation)}</span>` : nothing}
      <span class="now-key now-key-moment">selected moment</span>
      ${shown.step_s > shown.tick_s * 1.5 ? html`<span class="now-key now-key-extremes">minimum to maximum of ${duration(shown.step_s)}</span>` : nothing}
      ${shown.marks.length ? html`<span class="now-key now-key-mark">marks</span>` : nothing}
      ${shown.incidents.length ? html`<span class="now-key now-key-incident">incidents</span>` : nothing}
      <details class="now-table" ?open=${view.table} @toggle=${(event) => toggled(view, event.target.open)}>
        <summary>As a table</summary>
        ${view.table ? table(shown) : nothing}
      </details>
    </div>
  </section>`;
}

function toggled(view, open) {
  if (open === view.table) return;
  view.table = open;
  view.page.update();
}

function table(shown) {
  const first = Math.max(shown.ts.length - TABLE_ROWS, 0);
  const thinned = shown.step_s > shown.tick_s * 1.5;
  return html`<div class="now-scroll" tabindex="0" role="region" aria-label="Values">
    <table>
      <caption class="unseen">${shown.feature}, the newest first</caption>
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col" class="number">${thinned ? "Mean" : "Value"}</th>
          ${thinned ? html`<th scope="col" class="number">Minimum</th><th scope="col" class="number">Maximum</th>` : nothing}
        </tr>
      </thead>
      <tbody>
        ${shown.ts
          .slice(first)
          .map((ts, index) => [ts, first + index])
          .reverse()
          .map(
            ([ts, index]) => html`<tr>
              <th scope="row">${time(ts)}</th>
              <td class="number">${readable(shown.feature, shown.values[index])}</td>
              ${thinned
                ? html`<td class="number">${readable(shown.feature, shown.low[index])}</td>
                    <td class="number">${readable(shown.feature, shown.high[index])}</td>`
                : nothing}
            </tr>`,
          )}
      </tbody>
    </table>
  </div>`;
}

function label(view, shown, name) {
  const here = view.row?.row.features.find((each) => each.feature === shown.feature);
  const value = here ? `, ${readable(shown.feature, here.value)} at the moment` : "";
  const usually = shown.usual ? `, baseline ${readable(shown.feature, shown.usual.mean)}` : "";
  return `Time series: ${shown.feature} of ${name}${value}${usually}. The table below has the values.`;
}

function zoom(view, factor) {
  const { from, to } = view.range;
  const { ts } = view.moment;
  const middle = ts >= from && ts <= to ? ts : (from + to) / 2;
  ranged(view, middle - (middle - from) * factor, middle + (to - middle) * factor);
}

/** Show a time range: within the history, and at least ten ticks long. */
function ranged(view, from, to, replace = false) {
  const { timeline, moment } = view;
  const least = 10 * moment.tick_s;
  const middle = (from + to) / 2;
  const begin = Math.max(Math.min(from, middle - least / 2), timeline?.first_ts ?? from);
  const end = Math.min(Math.max(to, middle + least / 2), Math.max(timeline?.last_ts ?? to, moment.ts));
  view.page.go({ from: seconds(begin), to: seconds(Math.max(end, begin + least)) }, { replace });
}
