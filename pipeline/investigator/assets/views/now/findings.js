/** What was found, in the server's own sentences: since when, how far it is to be believed, and what was open then. */

import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { duration, readable } from "../../format.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";

/** How the badge of a host's status looks; of others it is plain. */
const LOUD = { incident: "culprit", saturated: "culprit", suspicious: "victim" };

export function nothingRecorded() {
  return html`<section class="empty card">
    <h1>Nothing is recorded yet</h1>
    <p>Start laggard on the machine that is slow; this page follows by itself:</p>
    <p><code>laggard up</code></p>
    <p class="muted">It needs no configuration. The first answer comes after some seconds, and is worth more after some minutes: what is usual has to be learned.</p>
  </section>`;
}

export function findings(view) {
  const { moment, problem, timeline, page } = view;
  if (!moment) {
    if (!problem) return html`<p class="muted" role="status">Reading…</p>`;
    return html`<section class="card empty" role="status">
      <h2>${view.at === undefined ? problem.message : "Nothing is recorded at this moment"}</h2>
      ${timeline ? html`<p>The history reaches from ${time(timeline.first_ts)} to ${time(timeline.last_ts)}.</p>` : html`<p>Expected: ${problem.expected}</p>`}
      <p><a class="button" href=${page.href("/")}>Show now</a></p>
    </section>`;
  }
  const { belief, began, grown } = moment;
  return html`<section class="card now-findings" aria-label="What was found" tabindex="0">
    <div class="now-sentences">
      ${moment.silent_s > 0
        ? html`<p><span class="badge victim">silent</span> ${moment.host} has sent nothing for ${duration(moment.silent_s)}: this is the last that came. See <code>laggard doctor</code> there.</p>`
        : nothing}
      ${moment.told.map((text, place) => html`<p>${place ? nothing : html`<span class="badge ${LOUD[moment.status] ?? nothing}">${moment.status}</span> `}${sentence(text)}</p>`)}
      <p class=${belief.young ? nothing : "muted"}>
        ${belief.young ? html`<span class="badge victim">young</span> ` : nothing}${sentence(belief.told)}
      </p>
    </div>
    <div class="now-facts">
      ${began === null ? nothing : html`<p>Since ${moment.began_before ? "before " : ""}${time(began, true)} <span class="muted">(${duration(Math.max(moment.ts - began, 0))})</span></p>`}
      ${grown ? html`<p>Grown since ${grown.before ? "before " : ""}${time(grown.ts, true)}${moment.subject ? html`, from ${readable(moment.subject.feature, grown.value)}` : nothing}</p>` : nothing}
      ${moment.incidents.map((each) => html`<p><a href=${page.href("/incidents", { id: each.id })}>Incident since ${time(each.from, true)}</a></p>`)}
      ${moment.host_summary.length
        ? html`<dl class="now-figures">
            ${moment.host_summary.map((each) => html`<div><dt>${each.label}</dt><dd>${readable(each.feature, each.value)}</dd></div>`)}
          </dl>`
        : nothing}
    </div>
  </section>`;
}
