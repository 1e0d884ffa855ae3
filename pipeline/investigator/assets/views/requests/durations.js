/** Durations of normal requests and outliers: a histogram with logarithmic axes. */

import { readable } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { logTicks } from "./ticks.js";

const WIDE = 560;
const HIGH = 190;
const MARGIN = { left: 44, right: 12, top: 24, bottom: 26 };

/** The histogram. */
export function histogram(durations) {
  const { edges_s: edges, normal, outlying, threshold_s: threshold } = durations;
  const [low, high] = [edges[0], edges.at(-1)];
  const most = Math.max(...normal, ...outlying, 1);
  const x = (value) => MARGIN.left + ((Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (WIDE - MARGIN.left - MARGIN.right);
  const bottom = HIGH - MARGIN.bottom;
  const y = (count) => bottom - (Math.log1p(count) / Math.log1p(most)) * (bottom - MARGIN.top);
  const bars = (counts, shrink, name) =>
    counts.map((count, bin) => {
      if (!count) return nothing;
      const [left, right] = [x(edges[bin]), x(edges[bin + 1])];
      const wide = (right - left) * shrink;
      return svg`<rect class=${name} x=${((left + right - wide) / 2).toFixed(1)} y=${y(count).toFixed(1)} width=${wide.toFixed(1)} height=${(bottom - y(count)).toFixed(1)} />`;
    });
  const cut = threshold === null ? undefined : x(threshold);
  return html`<svg class="requests-histogram" viewBox="0 0 ${WIDE} ${HIGH}" role="img" aria-label=${description(durations)}>
      ${logTicks(1, most, 5).map((count) => svg`<path class="requests-tick" d="M${MARGIN.left} ${y(count).toFixed(1)}H${WIDE - MARGIN.right}" />
        <text class="requests-note" x=${MARGIN.left - 6} y=${(y(count) + 4).toFixed(1)} text-anchor="end">${readable("", count)}</text>`)}
      ${logTicks(low, high, 8).map((value) => svg`<path class="requests-tick" d="M${x(value).toFixed(1)} ${bottom}v4" />
        <text class="requests-note" x=${x(value).toFixed(1)} y=${HIGH - 8} text-anchor="middle">${readable("duration_s", value)}</text>`)}
      ${bars(normal, 0.94, "requests-normal")} ${bars(outlying, 0.5, "requests-outlying")}
      ${cut === undefined
        ? nothing
        : svg`<path class="requests-cut" d="M${cut.toFixed(1)} ${MARGIN.top - 6}V${bottom}" />
            <text class="requests-cut-text" x=${(cut > WIDE * 0.6 ? cut - 5 : cut + 5).toFixed(1)} y="14" text-anchor=${cut > WIDE * 0.6 ? "end" : "start"}>${readable("duration_s", threshold)}</text>`}
    </svg>
    <p class="requests-key">
      <svg width="12" height="12" aria-hidden="true">${svg`<rect class="requests-normal" width="12" height="12" />`}</svg> normal
      <svg width="12" height="12" aria-hidden="true">${svg`<rect class="requests-outlying" x="3" width="6" height="12" />`}</svg> outliers
      ${cut === undefined ? nothing : html`<span class="muted">Best threshold for an alert: ${readable("duration_s", threshold)} separates both with the fewest errors.</span>`}
    </p>`;
}

/** The histogram as a table. */
export function histogramTable({ edges_s: edges, normal, outlying }) {
  return html`<details>
      <summary>Durations as a table</summary>
      <div class="scrolls" tabindex="0" role="region" aria-label="Durations as a table">
        <table>
          <thead>
            <tr><th scope="col">Duration</th><th scope="col" class="number">Normal</th><th scope="col" class="number">Outliers</th></tr>
          </thead>
          <tbody>
            ${normal.map((count, bin) =>
              count || outlying[bin]
                ? html`<tr>
                    <th scope="row">${readable("duration_s", edges[bin])} to ${readable("duration_s", edges[bin + 1])}</th>
                    <td class="number">${readable("", count)}</td>
                    <td class="number">${readable("", outlying[bin])}</td>
                  </tr>`
                : nothing,
            )}
          </tbody>
        </table>
      </div>
    </details>`;
}

function description({ edges_s: edges, normal, outlying }) {
  const sum = (counts) => counts.reduce((a, b) => a + b, 0);
  return `Durations from ${readable("duration_s", edges[0])} to ${readable("duration_s", edges.at(-1))}: ${sum(normal)} normal requests, ${sum(outlying)} outliers. The table below has the counts.`;
}
