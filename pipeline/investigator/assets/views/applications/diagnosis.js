/** Diagnosis (S2, Figure 11): the hosts of an application in tiers, with the metrics of both phases. */

import { get } from "../../api.js";
import { printable, readable } from "../../format.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import { choice, resource, share } from "./shared.js";

/** The number of candidate metrics per host before *more*. */
const SHOWN = 4;

export async function load(view, signal) {
  const { performance, model } = view.page.params;
  return get("/applications/map", { application: view.application, performance, model }, signal);
}

export function render(view, data) {
  const { model } = data;
  return html`
    ${choice(view, data.performance, model.performance)}
    ${data.sentence ? html`<p class="alarm">${sentence(data.sentence)}</p>` : nothing}
    <p>
      Model of ${time(model.ts)}, R² ${share(model.r2)}: <code>${model.equation}</code>
      ${view.page.params.model ? html`<a href=${view.link({ model: undefined })}>Show the current one</a>` : nothing}
    </p>
    <p class="muted applications-legend">
      <span><span class="applications-star" aria-hidden="true">★</span> in the model (phase 2)</span>
      <span><span aria-hidden="true">•</span> correlates with the ${model.named} (phase 1)</span>
      ${data.slow ? html`<span><span class="badge culprit">culprit</span> most likely</span>` : nothing}
    </p>
    <ol class="applications-map" aria-label="Tiers of ${printable(data.application)}">
      ${data.tiers.map(
        (tier) => html`<li class="applications-tier">
          <h2>${printable(tier.tier)}</h2>
          ${tier.hosts.map((host) => one(view, data, host))}
        </li>`,
      )}
    </ol>
  `;
}

/** The value of a suspected metric beside its baseline. */
function now(suspect) {
  if (!suspect) return nothing;
  const { metric, value, mean } = suspect;
  return html`<span class="alarm">now ${readable(metric.feature, value)}${mean === null ? nothing : html`, baseline ${readable(metric.feature, mean)}`}</span>`;
}

function one(view, { model }, host) {
  const blamed = host.suspects.length > 0;
  const first = host.phase_1.filter((each) => !each.chosen);
  const link = (metric) => view.link({ tab: "analysis", metric, performance: model.performance });
  const kind = blamed ? "card applications-host blamed" : host.phase_2.length ? "card applications-host in" : "card applications-host";
  const of = (each) => html`<li class="applications-phase-1"><span aria-hidden="true">•</span> <a href=${link(each.metric.metric)}>${sentence(each.metric.description)}</a> ${resource(each.metric)} <span class="muted">r ${each.r === null ? "-" : each.r.toFixed(2)}</span></li>`;
  return html`<section class=${kind}>
    <h3>${printable(host.host)} ${blamed ? html`<span class="badge culprit">culprit</span>` : nothing}</h3>
    ${host.phase_2.length
      ? html`<ul aria-label="In the model">
          ${host.phase_2.map(
            (each) => html`<li class="applications-phase-2">
              <span class="applications-star" aria-hidden="true">★</span> <a href=${link(each.metric.metric)}>${sentence(each.metric.description)}</a> ${resource(each.metric)}
              ${each.effect ? html`<span class="muted">${each.effect}</span>` : nothing} ${now(host.suspects.find((one) => one.metric.metric === each.metric.metric))}
            </li>`,
          )}
        </ul>`
      : nothing}
    ${first.length ? html`<ul aria-label="Candidate metrics">${first.slice(0, SHOWN).map(of)}</ul>` : nothing}
    ${first.length > SHOWN
      ? html`<details>
          <summary>${first.length - SHOWN} more</summary>
          <ul>${first.slice(SHOWN).map(of)}</ul>
        </details>`
      : nothing}
    <p class="muted">${host.phase_2.length || first.length ? nothing : "No selected metrics. "}${host.metrics.toLocaleString("en-US")} metrics in total</p>
  </section>`;
}
