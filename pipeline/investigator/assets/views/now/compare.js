/** Two moments side by side, the largest difference first. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { readable } from "../../format.js";
import { time } from "../../time.js";
import { featureScored, greatest, scored } from "./bar.js";
import { featuresBody, identity } from "./features.js";
import { body, foot, head, HOST, shownRows } from "./ranking.js";

export function comparedRanking(view) {
  const { comparison } = view;
  const shown = shownRows(view);
  const most = greatest(comparison.rows.flatMap((each) => [each.score_at, each.score_with]));
  const cells = (each) => html`<td class="number now-score">${scored(each.score_at, most)}</td>
    <td class="number now-score">${scored(each.score_with, most)}</td>
    <th scope="row">
      <span class="now-name">${each.name}</span>
      ${each.row === HOST ? html`<span class="badge">host</span>` : each.there === "both" ? nothing : html`<span class="badge">only at ${time(comparison[each.there], true)}</span>`}
    </th>
    <td class="number">${each.pid ?? ""}</td>
    <td class="now-command" title=${each.command || nothing}>${each.command}</td>`;
  return html`<section class="card now-ranking" aria-label="Processes of two moments">
    ${head(view, "Differences", comparison.rows, shown)}
    <div class="now-scroll">
      <table role="grid" aria-label="Processes, the largest difference first">
        <thead>
          <tr>
            <th scope="col" class="number now-col-time">${time(comparison.at, true)}</th>
            <th scope="col" class="number now-col-time">${time(comparison.with, true)}</th>
            <th scope="col" class="now-col-name">Name</th>
            <th scope="col" class="number now-col-pid">PID</th>
            <th scope="col" class="now-col-command">Command</th>
          </tr>
        </thead>
        ${body(view, shown, cells)}
      </table>
      ${foot(view, comparison.rows, shown)}
      ${comparison.rows_left_out ? html`<p class="now-rest muted">${comparison.rows_left_out} more rows with smaller differences.</p>` : nothing}
    </div>
  </section>`;
}

export function comparedFeatures(view) {
  const { comparison, chosen } = view;
  const row = view.compared(chosen);
  if (!row) {
    return html`<section class="card now-features" tabindex="-1" aria-label="Features">
      <h2>Not in this comparison</h2>
      <p class="muted"><code>${chosen}</code> is not among the largest differences. Select another process.</p>
    </section>`;
  }
  const most = greatest(row.features.flatMap((each) => [each.at?.score, each.with?.score]));
  const name = chosen === HOST ? comparison.host : row.name;
  return html`<section class="card now-features" tabindex="-1" aria-label="Features of ${name} at two moments">
    <div class="now-head"><h2>${name}</h2></div>
    ${identity(row)}
    <div class="now-scroll">
      <table role="grid" aria-label="Features, the largest difference first">
        <thead>
          <tr>
            <th scope="col">Feature</th>
            <th scope="col" class="number">${time(comparison.at, true)}</th>
            <th scope="col" class="number">Score</th>
            <th scope="col" class="number">${time(comparison.with, true)}</th>
            <th scope="col" class="number">Score</th>
          </tr>
        </thead>
        ${featuresBody(view, row, (each) =>
          [each.at, each.with].map(
            (one) => html`<td class="number">${readable(each.feature, one?.value)}</td>
              <td class="number now-score">${featureScored(one?.score, most)}</td>`,
          ),
        )}
      </table>
    </div>
  </section>`;
}
