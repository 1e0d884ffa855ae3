/** The phases of an event: high use, and the dips between (S1, Figure 2). */

import { clock, duration, moment, readable } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";

const HEIGHT = 96;
const TOP = 6;
const AXIS = 20;

/**
 * Draw the phases, above a table.
 *
 * @param {{high: boolean, begin_ts: number, end_ts: number, value: number|null, dips?: number, did?: string}[]} phases
 * @param {string} feature the measured feature, which determines the unit
 * @param {string} label the name of the row
 */
export function phases(found, feature, label) {
  const from = found[0].begin_ts;
  const to = Math.max(found.at(-1).end_ts, from + 1);
  const most = Math.max(...found.map((each) => each.value ?? 0)) || 1;
  const base = HEIGHT - AXIS;
  const x = (ts) => `${(100 * (ts - from)) / (to - from)}%`;
  const described = found.some((each) => each.did);
  return html`<svg class="incidents-phases" width="100%" height=${HEIGHT} role="img" aria-label="${label}: ${found.length} phases from ${moment(from)} to ${moment(to)}; the table below lists them">
      ${found.map((each) => {
        const high = Math.max(((each.value ?? 0) / most) * (base - TOP), 2);
        return svg`<g><title>${each.high ? "high use" : "dip"}, ${clock(each.begin_ts)} to ${clock(each.end_ts)}: ${readable(feature, each.value)}</title>
          <rect class=${each.high ? "high" : "dip"} x=${x(each.begin_ts)} y=${base - high} width="${(100 * (each.end_ts - each.begin_ts)) / (to - from)}%" height=${high}></rect></g>`;
      })}
      <line class="incidents-grid" x1="0" x2="100%" y1=${base} y2=${base}></line>
      <text class="incidents-axis" x="0" y=${HEIGHT - 5}>${clock(from)}</text>
      <text class="incidents-axis" x="100%" y=${HEIGHT - 5} text-anchor="end">${clock(to)}</text>
      <text class="incidents-axis" x="50%" y=${HEIGHT - 5} text-anchor="middle">maximum ${readable(feature, most)}</text>
    </svg>
    <div class="scrolls" tabindex="0" role="region" aria-label="Phases of ${label}">
      <table>
        <thead>
          <tr><th scope="col">Phase</th><th scope="col">Start</th><th scope="col" class="number">Duration</th><th scope="col" class="number">Mean</th>${described ? html`<th scope="col">Profile</th>` : nothing}</tr>
        </thead>
        <tbody>
          ${found.map(
            (each, number) =>
              html`<tr>
                <th scope="row" class="incidents-phase">${number + 1}: ${each.high ? "high use" : "dip"}${each.dips ? ` with ${each.dips} dips` : ""}</th>
                <td>${time(each.begin_ts)}</td>
                <td class="number">${duration(each.end_ts - each.begin_ts)}</td>
                <td class="number">${readable(feature, each.value)}</td>
                ${described ? html`<td class="incidents-description">${sentence(each.did)}</td>` : nothing}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}
