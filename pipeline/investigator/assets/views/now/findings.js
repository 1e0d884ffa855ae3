/** The findings of a moment in the API's sentences: onset, reliability, and open incidents. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { duration, readable } from "../../format.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";

/** The style of the badge by the host's status; plain for the others. */
const LOUD = { incident: "culprit", saturated: "culprit", suspicious: "victim" };

export function nothingRecorded() {
  return html`<section class="empty card">
    <h1>No data yet</h1>
    <p>Start laggard on the slow machine. This page updates automatically.</p>
    <p><code>laggard up</code></p>
    <p class="muted">No configuration is needed. The first result appears after some seconds. Results become reliable after some minutes, when the baselines are learned.</p>
  </section>`;
}

export function findings(view) {
  const { moment, problem, timeline, page } = view;
  if (!moment) {
    if (!problem) return html`<p class="muted" role="status">Loading…</p>`;
    return html`<section class="card empty" role="status">
      <h2>${view.at === undefined ? problem.message : "No data at this moment"}</h2>
      ${timeline ? html`<p>The history covers ${time(timeline.first_ts)} to ${time(timeline.last_ts)}.</p>` : html`<p>Expected: ${problem.expected}</p>`}
      <p><a class="button" href=${page.href("/")}>Show now</a></p>
    </section>`;
  }
  const { belief, began, grown } = moment;
  return html`<section class="card now-findings" aria-label="Findings" tabindex="0">
    <div class="now-sentences">
      ${moment.silent_s > 0
        ? html`<p><span class="badge victim">no data</span> No data from ${moment.host} for ${duration(moment.silent_s)}; this is its newest. Run <code>laggard doctor</code> there.</p>`
        : nothing}
      ${moment.sentences.map((text, place) => html`<p>${place ? nothing : html`<span class="badge ${LOUD[moment.status] ?? nothing}">${moment.status}</span> `}${sentence(text)}</p>`)}
      <p class=${belief.young ? nothing : "muted"}>
        ${belief.young ? html`<span class="badge victim">warm-up</span> ` : nothing}${sentence(belief.sentence)}
      </p>
    </div>
    <div class="now-facts">
      ${began === null ? nothing : html`<p>Since ${moment.began_before ? "before " : ""}${time(began, true)} <span class="muted">(${duration(Math.max(moment.ts - began, 0))})</span></p>`}
      ${grown ? html`<p>Worse since ${grown.before ? "before " : ""}${time(grown.ts, true)}${moment.subject ? html`, from ${readable(moment.subject.feature, grown.value)}` : nothing}</p>` : nothing}
      ${moment.incidents.map((each) => html`<p><a href=${page.href("/incidents", { id: each.id })}>Incident since ${time(each.from, true)}</a></p>`)}
      ${moment.host_summary.length
        ? html`<dl class="now-figures">
            ${moment.host_summary.map((each) => html`<div><dt>${each.label}</dt><dd>${readable(each.feature, each.value)}</dd></div>`)}
          </dl>`
        : nothing}
    </div>
  </section>`;
}
