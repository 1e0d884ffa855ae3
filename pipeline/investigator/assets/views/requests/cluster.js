/** A cluster of requests beside normal ones: states as paired bars, and its deviations. */

import { printable, readable } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { patch } from "./path.js";
import { requestsTable } from "./list.js";

const WIDE = 96;
const BAR = 7;

/** The card of the selected cluster. */
export function clusterCard(view) {
  const { page, cluster } = view;
  if (!cluster) return nothing;
  return html`<section class="card requests-cluster">
    <p class="requests-close"><a href=${page.href("/requests", { ...page.params, cluster: undefined })}>Close</a></p>
    <h2>Cluster ${printable(cluster.cluster)}</h2>
    <p>
      <strong>${readable("", cluster.requests)} ${cluster.requests === 1 ? "request" : "requests"}</strong>, median
      ${readable("duration_s", cluster.median_s)}${cluster.odd ? html`, ${cluster.odd === cluster.requests ? "all" : readable("", cluster.odd)} odd rather than slow` : nothing}.
      A typical request ${sentence(printable(cluster.sentence))}.
    </p>
    <div class="requests-beside requests-uneven">
      ${states(cluster)}
      <div>${deviations("Sequences of system calls", cluster.ngrams, cluster)}${deviations("Uses of time", cluster.spent, cluster)}</div>
    </div>
    <h3 id="requests-examples">Slowest requests</h3>
    ${requestsTable(view, cluster.examples, "requests-examples")}
  </section>`;
}

/** The requests behind the means. */
function beside(cluster) {
  if (!cluster.beside) return "Means per request, beside the baseline at their time";
  const of = cluster.compared < cluster.requests ? `the newest ${readable("", cluster.compared)} of these` : "these";
  return `Means per request of ${of}, beside the newest ${readable("", cluster.beside)} normal ones`;
}

function states(cluster) {
  const shown = cluster.states.filter((each) => each.time_s || each.usual_s).sort((a, b) => b.time_s - a.time_s);
  const longest = Math.max(...shown.flatMap((each) => [each.time_s, each.usual_s ?? 0]), 1e-9);
  const counted = shown.some((each) => each.count !== null);
  return html`<div>
    <h3 id="requests-bars">Time in each state</h3>
    <p class="muted">${beside(cluster)}. Upper bar: this cluster. Lower, pale bar: normal requests.</p>
    <div class="scrolls" tabindex="0" role="region" aria-labelledby="requests-bars">
      <table>
        <thead>
          <tr>
            <th scope="col">State</th><th scope="col"><span class="unseen">Bars</span></th><th scope="col" class="number">Time</th><th scope="col" class="number">Baseline</th>
            ${counted ? html`<th scope="col" class="number">Entries</th><th scope="col" class="number">Baseline</th>` : nothing}
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            (each) => html`<tr>
              <th scope="row">${patch(each.color)} ${each.label}</th>
              <td>
                <svg class="requests-pair" width=${WIDE} height=${2 * BAR + 2} aria-hidden="true">
                  ${svg`<rect x="0" y="0" width=${((WIDE * each.time_s) / longest).toFixed(1)} height=${BAR} fill=${each.color} />
                    <rect class="requests-usual" x="0" y=${BAR + 2} width=${((WIDE * (each.usual_s ?? 0)) / longest).toFixed(1)} height=${BAR} fill=${each.color} />`}
                </svg>
              </td>
              <td class="number">${readable("time_s", each.time_s)}</td>
              <td class="number">${readable("time_s", each.usual_s)}</td>
              ${counted ? html`<td class="number">${often(each.count)}</td><td class="number">${often(each.usual_count)}</td>` : nothing}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </div>`;
}

/** A mean count with at most two decimals. */
function often(count) {
  return readable("", count === null ? count : Math.round(count * 100) / 100);
}

function deviations(title, found, cluster) {
  if (!cluster.beside) return nothing;
  const id = `requests-deviations-${title.split(" ")[0]}`;
  const timed = found.some((each) => each.time_s !== null);
  return html`<h3 id=${id}>${title}</h3>
    ${found.length
      ? html`<div class="scrolls" tabindex="0" role="region" aria-labelledby=${id}>
          <table>
            <thead>
              <tr>
                <th scope="col">Feature</th>
                ${timed ? html`<th scope="col" class="number">Time</th><th scope="col" class="number">Baseline</th>` : nothing}
                <th scope="col" class="number">Count</th><th scope="col" class="number">Baseline</th>
                <th scope="col" class="number">Share</th><th scope="col" class="number">Baseline</th>
                <th scope="col" class="number"><abbr title="The difference in spreads of normal requests; values up to 3 may be chance">Deviation</abbr></th>
              </tr>
            </thead>
            <tbody>
              ${found.map(
                (each) => html`<tr>
                  <th scope="row" class="requests-what">${each.text}</th>
                  ${timed ? html`<td class="number">${readable("time_s", each.time_s)}</td><td class="number">${readable("time_s", each.usual_time_s)}</td>` : nothing}
                  <td class="number">${often(each.count)}</td>
                  <td class="number">${often(each.usual_count)}</td>
                  <td class="number">${readable("share_ratio", each.share)}</td>
                  <td class="number">${readable("share_ratio", each.usual_share)}</td>
                  <td class="number">${each.statistic > 0 ? "+" : ""}${readable("", each.statistic)}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p class="muted">No deviation beyond chance.</p>`}`;
}
