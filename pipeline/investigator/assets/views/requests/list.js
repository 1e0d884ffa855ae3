/** Requests as a table, sorted and filtered. */

import { printable, readable, score } from "../../format.js";
import { live } from "../../packages/lit-html/directives/live.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import { isLive } from "./range.js";

const ONLY = { all: "All", outlying: "Outliers", normal: "Normal", alone: "Outliers without a cluster" };
const SORTS = { slowest: "Slowest first", newest: "Newest first", unlike: "Highest score first" };

/** The number of requests before *Show more*, and at most. */
export const SHOWN = 25;
const MOST = 1000;

/** A table of some requests. */
export function requestsTable({ page, service }, rows, labelled) {
  const range = { service, from: page.params.from, to: page.params.to, cluster: page.params.cluster };
  return html`<div class="scrolls" tabindex="0" role="region" aria-labelledby=${labelled}>
    <table>
      <thead>
        <tr>
          <th scope="col">Request</th><th scope="col">Name</th><th scope="col">Start</th><th scope="col" class="number">Duration</th>
          <th scope="col" class="number">Score</th><th scope="col">Cluster</th><th scope="col">Cause</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (each) => html`<tr>
            <th scope="row"><a href=${page.href("/requests", { ...range, request: each.request, at: each.ts })}>${printable(each.request)}</a></th>
            <td>${printable(each.name)}</td>
            <td>${time(each.ts)}</td>
            <td class="number">${readable("duration_s", each.duration_s)}</td>
            <td class="number">${each.outlying ? html`<span class="alarm">${score(each.score)}</span>` : html`<span class="muted">normal</span>`}</td>
            <td>${printable(each.cluster)}${each.odd ? html` <span class="badge">odd</span>` : nothing}</td>
            <td class="requests-cause">${sentence(printable(each.cause))}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** The card of all requests of the service. */
export function listCard(view) {
  const { page, list } = view;
  const { sort = "slowest", only = "all", like = "" } = page.params;
  const change = (params) => page.go({ most: undefined, ...params }, { replace: true });
  return html`<section class="card">
    <h2 id="requests-list">Requests</h2>
    <div class="requests-tools">
      <label>Show
        <select @change=${(event) => change({ only: event.target.value === "all" ? undefined : event.target.value })}>
          ${Object.entries(ONLY).map(([value, label]) => html`<option value=${value} ?selected=${value === only}>${label}</option>`)}
        </select></label>
      <label>Sort
        <select @change=${(event) => change({ sort: event.target.value === "slowest" ? undefined : event.target.value })}>
          ${Object.entries(SORTS).map(([value, label]) => html`<option value=${value} ?selected=${value === sort}>${label}</option>`)}
        </select></label>
      <label>Filter
        <input type="search" maxlength="200" .value=${live(like)} @change=${(event) => change({ like: event.target.value || undefined })} /></label>
      <span class="muted" role=${isLive(page.params) ? nothing : "status"}>${list ? counted(list) : ""}</span>
    </div>
    ${list?.requests.length
      ? html`${requestsTable(view, list.requests, "requests-list")}
          ${list.found > list.requests.length && list.requests.length < MOST
            ? html`<p><button type="button" @click=${() => page.go({ most: Math.min(list.requests.length * 2, MOST) }, { replace: true })}>Show more</button></p>`
            : nothing}`
      : html`<p class="muted">${list ? "No matching requests." : "Loading…"}</p>`}
  </section>`;
}

function counted({ found, of, requests }) {
  const these = found === of ? `${readable("", of)} requests` : `${readable("", found)} of ${readable("", of)} requests`;
  return requests.length < found ? `${these}; ${readable("", requests.length)} shown` : these;
}
