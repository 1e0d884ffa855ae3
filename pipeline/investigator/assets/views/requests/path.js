/** One request: why it is out of line, its critical path across threads, and what its time was spent on. */

import { printable, readable, score } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import "./lanes.js";

/** The whole page of a request. */
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
          ? html`<p class="muted">What the request waited for, from thread to thread: an arrow leads to who goes on. Its own thread is on top.</p>
              <laggard-lanes .path=${path}></laggard-lanes>
              ${pieces(path)}`
          : html`<p>Its critical path is not known; below is how long it was in each state.</p>`}
      </section>
      ${states(path)} ${spent(path)}
      ${path.notes.length
        ? html`<section class="card">
            <h2>What limits the trust in it</h2>
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
  if (!found) return html`<p class="muted">It is not out of line, as far as is known.</p>`;
  const cluster = { service: path.service, cluster: found.cluster, from: page.params.from ?? path.from, to: page.params.to ?? path.to };
  return html`<p class="requests-verdict">
    <strong class="alarm">${found.odd ? "Odd" : "Out of line"}</strong>, score ${score(found.score)}${found.cluster
      ? html`, as others of the cluster <a href=${page.href("/requests", cluster)}>${printable(found.cluster)}</a>`
      : nothing}:
    ${sentence(printable(found.cause))}.${found.young ? html` <span class="muted">Too few requests were known to rely on it.</span>` : nothing}
  </p>`;
}

function pieces(path) {
  const labels = Object.fromEntries(path.states.map((each) => [each.state, each.label]));
  return html`<details>
    <summary>The path as a table</summary>
    <div class="scrolls" tabindex="0" role="region" aria-label="The path as a table">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">From</th><th scope="col" class="number">For</th><th scope="col">Thread</th>
            <th scope="col">State</th><th scope="col">In, or for</th>
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

/** A patch of a state's colour. */
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
            <th scope="col" class="number">Its own thread</th>${usual ? html`<th scope="col" class="number">Usually</th>` : nothing}
            <th scope="col">Most of it in</th>
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
            <th scope="row">In sum</th>
            <td class="number">${readable("time_s", sum("path_s"))}</td>
            <td></td>
            <td class="number">${readable("time_s", sum("own_s"))}</td>
            ${usual ? html`<td class="number">${readable("time_s", sum("usual_s"))}</td>` : nothing}
            <td></td>
          </tr>
        </tfoot>
      </table>
    </div>
    <p class="muted">On the path, a wait is told by what was waited for; its own thread only waits.</p>
  </section>`;
}

function spent(path) {
  return html`<section class="card">
    <h2>What took longest</h2>
    ${path.spent.length
      ? html`<div class="scrolls" tabindex="0" role="region" aria-label="What took longest">
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">Time</th><th scope="col" class="number">Times</th><th scope="col">State</th>
                <th scope="col">In the call</th><th scope="col">On</th><th scope="col">By</th><th scope="col">Result</th>
              </tr>
            </thead>
            <tbody>
              ${path.spent.map(
                (each) => html`<tr>
                  <td class="number">${readable("time_s", each.time_s)}</td>
                  <td class="number">${readable("times", each.times)}</td>
                  <td>${each.label || each.told}</td>
                  <td>${each.call ? html`<code>${printable(each.call)}</code>` : nothing}</td>
                  <td class="requests-what">${printable(each.on)}</td>
                  <td>${printable(each.by)}${each.pid ? html` <span class="muted">${each.pid}</span>` : nothing}</td>
                  <td>${printable(each.result)}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p class="muted">Not recorded of this request.</p>`}
  </section>`;
}

function others({ page, path }) {
  if (!path.others.length) return nothing;
  const range = { from: page.params.from, to: page.params.to };
  return html`<section class="card">
    <h2>Others of its cluster, the nearest in time</h2>
    <div class="scrolls" tabindex="0" role="region" aria-label="Others of its cluster">
      <table>
        <thead>
          <tr><th scope="col">Request</th><th scope="col">Asked for</th><th scope="col">Began</th><th scope="col" class="number">Took</th><th scope="col" class="number">Score</th></tr>
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
