/** One request: its cause, its critical path across threads, and the uses of its time. */

import { printable, readable, score } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import "./lanes.js";

/** The page of a request. */
export function onePage(view) {
  const { page, path } = view;
  const back = { service: path.service, from: page.params.from, to: page.params.to, cluster: page.params.cluster };
  return html`<p><a href=${page.href("/requests", back)}>← Requests of ${printable(path.service)}</a></p>
    <h1>${path.name ? html`${printable(path.name)} <span class="muted">${printable(path.request)}</span>` : printable(path.request)}</h1>
    <p>
      <strong>${readable("duration_s", path.duration_s)}</strong>, ${time(path.ts)}${path.host ? html` on <a href=${page.href("/", { host: path.host, at: path.ts })}>${printable(path.host)}</a>` : nothing}
    </p>
    ${verdict(view)}
    <div class="requests-stack">
      <section class="card">
        <h2>Critical path</h2>
        ${path.pieces.length
          ? html`<p class="muted">The work and the waits of the request across threads. An arrow leads to the thread that continues. The request's own thread is on top.</p>
              <laggard-lanes .path=${path}></laggard-lanes>
              ${pieces(path)}`
          : html`<p>The critical path is not known. The table below has the time in each state.</p>`}
      </section>
      ${states(path)} ${spent(path)}
      ${path.notes.length
        ? html`<section class="card">
            <h2>Limits of the recording</h2>
            <ul>
              ${path.notes.map((note) => html`<li>${printable(note)}</li>`)}
            </ul>
          </section>`
        : nothing}
      ${others(view)}
    </div>`;
}

function verdict({ page, path }) {
  const found = path.verdict;
  if (!found) return html`<p class="muted">Not an outlier, as far as is known.</p>`;
  const cluster = { service: path.service, cluster: found.cluster, from: page.params.from ?? path.from, to: page.params.to ?? path.to };
  return html`<p class="requests-verdict">
    <strong class="alarm">${found.odd ? "Odd" : "Outlier"}</strong>, score ${score(found.score)}${found.cluster
      ? html`, in the cluster <a href=${page.href("/requests", cluster)}>${printable(found.cluster)}</a>`
      : nothing}:
    ${sentence(printable(found.cause))}.${found.young ? html` <span class="muted">Warm-up: too few requests for a reliable score.</span>` : nothing}
  </p>`;
}

function pieces(path) {
  const labels = Object.fromEntries(path.states.map((each) => [each.state, each.label]));
  return html`<details>
    <summary>Path as a table</summary>
    <div class="scrolls" tabindex="0" role="region" aria-label="Path as a table">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">Start</th><th scope="col" class="number">Duration</th><th scope="col">Thread</th>
            <th scope="col">State</th><th scope="col">Detail</th>
          </tr>
        </thead>
        <tbody>
          ${path.pieces.map(
            (piece) => html`<tr>
              <td class="number">${readable("begin_s", piece.begin_s)}</td>
              <td class="number">${readable("duration_s", piece.end_s - piece.begin_s)}</td>
              <td>${path.lanes[piece.lane]}</td>
              <td>${labels[piece.state]}</td>
              <td>${printable(piece.detail)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

/** A patch in a state's color. */
export function patch(color) {
  return html`<svg class="requests-patch" width="12" height="12" aria-hidden="true">${svg`<rect width="12" height="12" rx="2" fill=${color} />`}</svg>`;
}

function states(path) {
  const shown = path.states.filter((each) => each.path_s || each.own_s || each.usual_s).sort((a, b) => b.path_s - a.path_s || b.own_s - a.own_s);
  const sum = (name) => (shown.some((each) => each[name] !== null) ? shown.reduce((total, each) => total + (each[name] ?? 0), 0) : null);
  const usual = sum("usual_s") !== null;
  const share = (each) => (path.duration_s > 0 && each.path_s !== null ? readable("share_ratio", each.path_s / path.duration_s) : "-");
  return html`<section class="card">
    <h2>Time in each state</h2>
    <div class="scrolls" tabindex="0" role="region" aria-label="Time in each state">
      <table>
        <thead>
          <tr>
            <th scope="col">State</th><th scope="col" class="number">On the path</th><th scope="col" class="number">Share</th>
            <th scope="col" class="number">Own thread</th>${usual ? html`<th scope="col" class="number">Baseline</th>` : nothing}
            <th scope="col">Main detail</th>
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            (each) => html`<tr>
              <th scope="row">${patch(each.color)} ${each.label}</th>
              <td class="number">${readable("time_s", each.path_s)}</td>
              <td class="number">${share(each)}</td>
              <td class="number">${readable("time_s", each.own_s)}</td>
              ${usual ? html`<td class="number">${readable("time_s", each.usual_s)}</td>` : nothing}
              <td class="requests-what">${each.detail}</td>
            </tr>`,
          )}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <td class="number">${readable("time_s", sum("path_s"))}</td>
            <td></td>
            <td class="number">${readable("time_s", sum("own_s"))}</td>
            ${usual ? html`<td class="number">${readable("time_s", sum("usual_s"))}</td>` : nothing}
            <td></td>
          </tr>
        </tfoot>
      </table>
    </div>
    <p class="muted">On the path, a wait is replaced by what the request waited for. Its own thread shows only the wait.</p>
  </section>`;
}

function spent(path) {
  return html`<section class="card">
    <h2>Longest uses of time</h2>
    ${path.spent.length
      ? html`<div class="scrolls" tabindex="0" role="region" aria-label="Longest uses of time">
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">Time</th><th scope="col" class="number">Count</th><th scope="col">State</th>
                <th scope="col">System call</th><th scope="col">On</th><th scope="col">By</th><th scope="col">Result</th>
              </tr>
            </thead>
            <tbody>
              ${path.spent.map(
                (each) => html`<tr>
                  <td class="number">${readable("time_s", each.time_s)}</td>
                  <td class="number">${readable("times", each.times)}</td>
                  <td>${each.label || each.text}</td>
                  <td>${each.call ? html`<code>${printable(each.call)}</code>` : nothing}</td>
                  <td class="requests-what">${printable(each.on)}</td>
                  <td>${printable(each.by)}${each.pid ? html` <span class="muted">${each.pid}</span>` : nothing}</td>
                  <td>${printable(each.result)}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p class="muted">Not recorded for this request.</p>`}
  </section>`;
}

function others({ page, path }) {
  if (!path.others.length) return nothing;
  const range = { from: page.params.from, to: page.params.to };
  return html`<section class="card">
    <h2>Other requests of its cluster, nearest in time</h2>
    <div class="scrolls" tabindex="0" role="region" aria-label="Other requests of its cluster">
      <table>
        <thead>
          <tr><th scope="col">Request</th><th scope="col">Name</th><th scope="col">Start</th><th scope="col" class="number">Duration</th><th scope="col" class="number">Score</th></tr>
        </thead>
        <tbody>
          ${path.others.map(
            (each) => html`<tr>
              <th scope="row"><a href=${page.href("/requests", { service: path.service, request: each.request, at: each.ts, ...range })}>${printable(each.request)}</a></th>
              <td>${printable(each.name)}</td>
              <td>${time(each.ts)}</td>
              <td class="number">${readable("duration_s", each.duration_s)}</td>
              <td class="number">${score(each.score)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}
