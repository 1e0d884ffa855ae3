/** Requests: durations, outliers, clusters, and the critical path of one (S4). */

import { get } from "../api.js";
import { printable, readable } from "../format.js";
import { html, nothing } from "../packages/lit-html/lit-html.js";
import { sentence } from "../sentence.js";
import { number } from "../state.js";
import { time } from "../time.js";
import { clusterCard } from "./requests/cluster.js";
import { histogram, histogramTable } from "./requests/durations.js";
import { listCard, SHOWN } from "./requests/list.js";
import { onePage } from "./requests/path.js";
import { asked, isLive, rangeChoice } from "./requests/range.js";
import { GLYPHS } from "./requests/scatter.js";

/** The shortest interval between updates of the plane, and the delay while a better one is being computed. */
const PLANE_MS = 10_000;
const PENDING_MS = 1_000;

export default class View {
  #shown = "";
  #timer;
  #planeRead = 0;

  constructor(page) {
    this.page = page;
  }

  /** A past time range does not change. */
  get topics() {
    return isLive(this.page.params) && !this.page.params.request ? ["requests", "anomalies"] : [];
  }

  leave() {
    clearTimeout(this.#timer);
  }

  async load(signal) {
    clearTimeout(this.#timer);
    const { params } = this.page;
    if (params.request && params.service) {
      if (this.path?.request !== params.request) this.path = undefined;
      this.path = await get("/requests/path", { service: params.service, request: params.request, at: number(params, "at"), ...asked(params) }, signal);
      return;
    }
    this.path = undefined;
    this.services = await get("/requests", asked(params), signal);
    this.service = params.service ?? this.services.services[0]?.service;
    const shown = JSON.stringify([this.service, asked(params)]);
    if (shown !== this.#shown) {
      this.one = this.list = this.plane = undefined;
      this.#planeRead = 0;
    }
    this.#shown = shown;
    if (!this.services.services.some((each) => each.service === this.service)) return;
    if (this.cluster?.cluster !== params.cluster) this.cluster = undefined;
    this.page.update();
    const of = { service: this.service, ...asked(params) };
    const { only, sort, like } = params;
    const wanted = { only, sort, like, most: number(params, "most") ?? SHOWN };
    const [one, list, cluster] = await Promise.all([
      get("/requests/service", of, signal),
      get("/requests/list", { ...of, ...wanted }, signal),
      params.cluster ? get("/requests/cluster", { ...of, cluster: params.cluster }, signal) : undefined,
      this.#readPlane(of, signal),
    ]);
    Object.assign(this, { one, list, cluster });
  }

  async #readPlane(of, signal) {
    if (this.plane && !this.plane.pending && performance.now() - this.#planeRead < PLANE_MS) return;
    const plane = await get("/requests/plane", of, signal);
    if (signal.aborted) return;
    this.#planeRead = performance.now();
    // Unchanged requests keep their drawing, and with it the viewer's zoom.
    const same = this.plane && this.plane.way === plane.way && this.plane.requests.join() === plane.requests.join();
    if (!same) this.scatter = undefined;
    this.plane = plane;
    if (plane.pending) {
      this.#timer = setTimeout(async () => {
        await this.#readPlane(of, signal).catch(() => undefined);
        if (!signal.aborted) this.page.update();
      }, PENDING_MS);
    }
  }

  shows() {
    return this.page.params.request ? this.path !== undefined : this.services !== undefined;
  }

  render() {
    if (this.page.params.request && this.page.params.service) return this.path ? onePage(this) : html`<h1>Request</h1>`;
    if (!this.services) return html`<h1>Requests</h1>`;
    if (this.services.hint) {
      return html`<section class="empty">
        <h1>No requests yet</h1>
        <p>laggard traces requests through the kernel. It finds outliers, and what they waited for.</p>
        <p>${sentence(this.services.hint)}.</p>
      </section>`;
    }
    return html`<h1>Requests</h1>
      ${rangeChoice(this)}
      <div class="requests-stack">${this.#services()} ${this.#one()}</div>`;
  }

  // The services.

  #services() {
    const { services, silent, newest } = this.services;
    const range = asked(this.page.params);
    return html`<section class="card">
      <h2 id="requests-services">Services</h2>
      ${services.length
        ? html`<div class="scrolls" tabindex="0" role="region" aria-labelledby="requests-services">
            <table>
              <thead>
                <tr>
                  <th scope="col">Service</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Outliers</th>
                  <th scope="col" class="number">Median</th><th scope="col" class="number">95 %</th><th scope="col" class="number">99 %</th>
                  <th scope="col" class="number">Longest</th><th scope="col">Newest</th><th scope="col">Open incidents</th>
                </tr>
              </thead>
              <tbody>${services.map((each) => this.#row(each, range))}</tbody>
            </table>
          </div>`
        : html`<p>No requests in this time. ${newest === null ? nothing : html`The newest started at ${time(newest)}: <a href=${this.page.href("/requests", { from: Math.floor(newest) - 3600, to: Math.ceil(newest) })}>show the hour before it</a>.`}</p>`}
      ${services.length && silent.length ? html`<p class="muted">Services without requests in this time: ${silent.map((each) => printable(each)).join(", ")}.</p>` : nothing}
    </section>`;
  }

  #row(each, range) {
    const share = each.outlying.requests / each.every.requests;
    const long = (value) => html`<td class="number">${readable("duration_s", value)}</td>`;
    return html`<tr class=${each.service === this.service ? "chosen" : ""}>
      <th scope="row"><a href=${this.page.href("/requests", { service: each.service, ...range })} aria-current=${each.service === this.service ? "true" : nothing}>${printable(each.service)}</a></th>
      <td class="number">${each.cut ? "more than " : ""}${readable("", each.every.requests)}</td>
      <td class="number">${each.outlying.requests ? html`<strong class="alarm">${readable("", each.outlying.requests)}</strong> <span class="muted">${readable("share_ratio", share)}</span>` : "0"}</td>
      ${long(each.every.median_s)}${long(each.every.p95_s)}${long(each.every.p99_s)}${long(each.every.longest_s)}
      <td>${time(each.newest)}</td>
      <td>${each.troubles.length ? each.troubles.map((one) => html`<a class="alarm" href=${this.page.href("/incidents", { id: one.id })}>since ${time(one.from)}</a> `) : html`<span class="muted">none</span>`}</td>
    </tr>`;
  }

  // The selected service.

  #one() {
    const { one } = this;
    if (!one) return nothing;
    const { service } = one;
    return html`<h2 class="requests-name">${printable(service.service)}</h2>
      ${service.troubles.map((each) => html`<p><a class="alarm" href=${this.page.href("/incidents", { id: each.id })}>Open since ${time(each.from)}</a> ${sentence(printable(each.sentence))}</p>`)}
      ${service.young ? html`<p class="muted">Warm-up: too few requests for reliable scores.</p>` : nothing}
      ${service.missing_ratio >= 0.01 ? html`<p class="muted">The tracer missed kernel events in up to ${readable("share_ratio", service.missing_ratio)} of a minute, and with them the requests at these times. They are not counted.</p>` : nothing}
      ${service.cut ? html`<p class="muted">Only the newest requests are counted, since there are too many.</p>` : nothing}
      <div class="requests-beside">
        ${this.#plane()}
        <section class="card">
          <h2>Durations</h2>
          ${histogram(one.durations)} ${durations(service)} ${histogramTable(one.durations)}
        </section>
      </div>
      ${this.#clusters()} ${clusterCard(this)} ${listCard(this)}`;
  }

  #plane() {
    const { plane } = this;
    return html`<section class="card">
      <h2>Similarity map</h2>
      ${plane
        ? html`<p class="muted">${placed(plane)}</p>
            <laggard-scatter class="requests-scatter" .label=${`Requests on a plane: ${placed(plane)} The table of requests below lists all of them. Plus, minus, 0 and the arrow keys zoom and move.`} .scatter=${this.#scatter()} @pick=${(event) => this.#picked(event)}></laggard-scatter>
            <div class="requests-tools">
              <button type="button" @click=${(event) => scatterOf(event).zoom(1.6)} aria-label="Zoom in">+</button>
              <button type="button" @click=${(event) => scatterOf(event).zoom(1 / 1.6)} aria-label="Zoom out">−</button>
              <button type="button" @click=${(event) => scatterOf(event).all()}>Show all</button>
            </div>
            ${this.#key()}`
        : html`<p class="muted">Loading…</p>`}
    </section>`;
  }

  #scatter() {
    const { plane } = this;
    this.scatter ??= {
      x: plane.x_s,
      y: plane.y_s,
      value: plane.duration_s,
      feature: "duration_s",
      shape: plane.cluster.map((each) => this.#shape(each)),
      text: (index) => `${printable(plane.requests[index])}: ${readable("duration_s", plane.duration_s[index])}, ${this.#clusterLabel(plane.cluster[index])}`,
    };
    return this.scatter;
  }

  /** The shape of a cluster; the last one is for further clusters, and for outliers without one. */
  #shape(cluster) {
    return cluster === -1 ? 0 : cluster === -2 ? GLYPHS.length - 1 : Math.min(cluster + 1, GLYPHS.length - 1);
  }

  #clusterLabel(cluster) {
    return cluster === -1 ? "normal" : cluster === -2 ? "outlier without a cluster" : `cluster ${printable(this.plane.clusters[cluster])}`;
  }

  #key() {
    const { plane } = this;
    const counts = new Map();
    for (const each of plane.cluster) counts.set(each, (counts.get(each) ?? 0) + 1);
    const known = [...counts].sort(([a], [b]) => (a === -2) - (b === -2) || a - b);
    return html`<ul class="requests-key">
      ${known.map(([cluster, count]) => {
        const label = this.#clusterLabel(cluster);
        const params = { ...this.page.params, service: this.service, cluster: plane.clusters[cluster] };
        return html`<li>
          <span class="requests-glyph" aria-hidden="true">${GLYPHS[this.#shape(cluster)]}</span>
          ${cluster >= 0 ? html`<a href=${this.page.href("/requests", params)}>${label}</a>` : label} <span class="muted">${readable("", count)}</span>
        </li>`;
      })}
    </ul>`;
  }

  #picked(event) {
    this.page.go({ service: this.service, request: this.plane.requests[event.detail.index], at: this.plane.ts[event.detail.index] });
  }

  #clusters() {
    const { clusters } = this.one;
    if (!clusters.length) return html`<section class="card"><h2>Clusters</h2><p class="muted">No outliers.</p></section>`;
    return html`<section class="card">
      <h2 id="requests-clusters">Clusters of outliers</h2>
      <div class="scrolls" tabindex="0" role="region" aria-labelledby="requests-clusters">
        <table>
          <thead>
            <tr>
              <th scope="col">Cluster</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Median</th>
              <th scope="col" class="number">Total</th><th scope="col">Since</th><th scope="col">Newest</th><th scope="col">Cause of the newest</th><th scope="col">Example</th>
            </tr>
          </thead>
          <tbody>${clusters.map((each) => this.#cluster(each))}</tbody>
        </table>
      </div>
    </section>`;
  }

  #cluster(each) {
    const range = { service: this.service, ...asked(this.page.params) };
    const to = each.cluster ? { ...range, cluster: each.cluster } : { ...range, only: "alone" };
    return html`<tr class=${each.cluster && each.cluster === this.page.params.cluster ? "chosen" : ""}>
      <th scope="row"><a href=${this.page.href("/requests", to)}>${each.cluster ? printable(each.cluster) : "no cluster yet"}</a>${each.odd ? html` <span class="badge">${each.odd === each.requests ? "odd" : `${each.odd} odd`}</span>` : nothing}</th>
      <td class="number">${readable("", each.requests)}</td>
      <td class="number">${readable("duration_s", each.median_s)}</td>
      <td class="number">${readable("time_s", each.time_s)}</td>
      <td>${time(each.first)}</td>
      <td>${time(each.newest, true)}</td>
      <td class="requests-cause">${sentence(printable(each.cause))}</td>
      <td><a href=${this.page.href("/requests", { ...range, request: each.example, at: each.newest })}>${printable(each.example)}</a></td>
    </tr>`;
  }
}

const scatterOf = (event) => event.target.closest("section").querySelector("laggard-scatter");

/** The description of the plane. */
function placed({ way, pending, normal, outlying, cluster }) {
  const out = cluster.filter((each) => each !== -1).length;
  const these = (drawn, all, label) => `${readable("", drawn)}${drawn < all ? ` of ${readable("", all)}` : ""} ${label}`;
  const how = way === "isomap" ? "by Isomap" : "by principal components";
  const next = !pending ? "" : way === "isomap" ? " Placing newer ones…" : " Computing Isomap…";
  return `${these(cluster.length - out, normal, "normal")} and ${these(out, outlying, "outliers")}, placed ${how} of their seconds in each state. Requests with similar times are near each other.${next}`;
}

function durations({ every, normal, outlying }) {
  const line = (label, each) => html`<tr>
    <th scope="row">${label}</th>
    <td class="number">${readable("", each.requests)}</td>
    <td class="number">${readable("duration_s", each.median_s)}</td>
    <td class="number">${readable("duration_s", each.p95_s)}</td>
    <td class="number">${readable("duration_s", each.p99_s)}</td>
    <td class="number">${readable("duration_s", each.longest_s)}</td>
  </tr>`;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Durations, figures">
    <table>
      <thead>
        <tr>
          <th scope="col"><span class="unseen">Requests</span></th><th scope="col" class="number">Requests</th><th scope="col" class="number">Median</th>
          <th scope="col" class="number">95 %</th><th scope="col" class="number">99 %</th><th scope="col" class="number">Longest</th>
        </tr>
      </thead>
      <tbody>${line("normal", normal)}${line("outliers", outlying)}${line("all", every)}</tbody>
    </table>
  </div>`;
}
