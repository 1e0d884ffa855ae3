/** Analysis (S2, Figure 10): candidate metrics, models over time, and one metric beside the performance. */

import { get, Refusal } from "../../api.js";
import { printable } from "../../format.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { stretch } from "../../state.js";
import { time } from "../../time.js";
import { range, zoom } from "./tracking.js";
import { built, capital, chance, choice, resource, share } from "./shared.js";

const SYNC = "applications-analysis";

/** The number of candidates before *more*; phase 1 usually selects about a hundred. */
const SHOWN = 20;

const WAIT_MS = 200;

export async function load(view, signal) {
  const { performance, model, metric } = view.page.params;
  const { application } = view;
  const asked = JSON.stringify([application, performance, model]);
  // Selecting another metric does not change the models.
  const same = view.data.asked === asked && view.data.metric !== metric;
  const models = same ? view.data.models : await get("/applications/models", { application, performance, model }, signal);
  const shown = models.models.find((each) => each.id === models.model) ?? models.models[0];
  const chosen = metric || shown.terms[0]?.metric.metric || models.candidates[0]?.metric.metric;
  let series;
  let problem;
  if (chosen) {
    try {
      series = await get("/applications/series", { application, metric: chosen, performance: shown.performance, ...stretch(view.page.params) }, signal);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) throw error;
      problem = error;
    }
  }
  return { asked, metric, models, shown, chosen, series, problem, interval_s: series?.interval_s };
}

export function render(view, data) {
  return html`
    ${choice(view, data.models.performance, data.shown.performance)}
    <div class="applications-analysis">
      <div class="applications-lists">${candidates(view, data)} ${models(view, data)}</div>
      <div class="applications-one">${one(view, data)}</div>
    </div>
  `;
}

function candidates(view, { models: found, shown, chosen }) {
  const present = found.models[0].id === found.model;
  const { all } = view;
  const listed = all ? found.candidates : found.candidates.slice(0, SHOWN);
  const more = found.candidates.length - SHOWN;
  return html`<section class="card">
    <h2>Candidate metrics</h2>
    <p class="muted">
      ${present ? "The current model" : html`The model of ${time(shown.ts)}`}; phase 1: metrics that correlate with the ${shown.named}.
      ${present ? nothing : html`<a href=${view.link({ model: undefined })}>Show the current one</a>`}
    </p>
    ${listed.length
      ? html`<div class="scrolls applications-candidates" tabindex="0" role="region" aria-label="Metrics of phase 1">
          <table>
            <thead>
              <tr><th scope="col">Metric</th><th scope="col">Resource</th><th scope="col" class="number" title="correlation coefficient">r</th><th scope="col" class="number">p-value</th></tr>
            </thead>
            <tbody>
              ${listed.map(
                (each) => html`<tr class=${each.metric.metric === chosen ? "chosen" : ""}>
                  <th scope="row">
                    <a href=${view.link({ metric: each.metric.metric })} aria-current=${each.metric.metric === chosen ? "true" : nothing}>${printable(each.metric.metric)}</a>
                    ${each.chosen ? html`<span class="badge applications-in">★ in the model</span>` : nothing} ${wished(found, each.metric.metric)}
                  </th>
                  <td>${resource(each.metric)}</td>
                  <td class="number">${each.r === null ? "-" : each.r.toFixed(3)}</td>
                  <td class="number">${chance(each.p_value)}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p>No metric correlates with it.</p>`}
    ${more > 0
      ? html`<button
          @click=${() => {
            view.all = !all;
            view.page.update();
          }}
        >
          ${all ? "Fewer" : `${more} more`}
        </button>`
      : nothing}
    ${anyOther(view)}
  </section>`;
}

function wished({ pinned, banned, waiting }, metric) {
  const waits = waiting.findLast((each) => each.metric.metric === metric);
  return html`${pinned.includes(metric) ? html`<span class="badge">pinned</span>` : nothing}
  ${banned.includes(metric) ? html`<span class="badge">banned</span>` : nothing}
  ${waits ? html`<span class="badge">${waits.wish}, from the next interval</span>` : nothing}`;
}

/** A search for any other metric by name. */
function anyOther(view) {
  const search = (event) => {
    const like = event.target.value;
    const signal = view.searching();
    setTimeout(async () => {
      if (signal.aborted) return;
      const found = await get("/applications/metrics", { application: view.application, like }, signal).catch(() => undefined);
      if (signal.aborted) return;
      view.near = found?.metrics.map((each) => each.metric) ?? [];
      view.page.update();
    }, WAIT_MS);
  };
  const submit = (event) => {
    event.preventDefault();
    const metric = new FormData(event.target).get("metric").trim();
    if (metric) view.page.go({ metric });
  };
  return html`<form class="applications-search" @submit=${submit}>
    <label>Other metric <input name="metric" list="applications-near" autocomplete="off" spellcheck="false" placeholder="web-1:cpu_busy_ratio" @input=${search} /></label>
    <datalist id="applications-near">${(view.near ?? []).map((each) => html`<option value=${each}></option>`)}</datalist>
    <button>Show</button>
  </form>`;
}

function models(view, { models: found, shown, chosen }) {
  return html`<section class="card">
    <h2>Models over time</h2>
    <ol class="applications-models">
      ${found.models.map(
        (each, index) => html`<li class=${each.id === shown.id ? "chosen" : ""}>
          <p>
            <strong>${time(each.ts)}</strong> ${index === 0 ? html`<span class="badge">current</span>` : nothing}
            <span class="muted">R² ${share(each.r2)}; ${each.samples} intervals, from ${time(each.begin_ts)}</span>
          </p>
          <p><code>${each.equation}</code></p>
          ${each.terms.map(
            (term) => html`<p>
              <a href=${view.link({ metric: term.metric.metric, model: index ? each.id : undefined })} aria-current=${term.metric.metric === chosen && each.id === shown.id ? "true" : nothing}>${sentence(capital(term.metric.description))}</a>
              ${resource(term.metric)}${term.effect ? html`<span class="muted">; ${term.effect}</span>` : nothing}
            </p>`,
          )}
          <p class="muted">
            ${capital(each.reason_text)}${each.changed ? html`; ${each.changed}` : nothing}.
            ${each.id === shown.id ? nothing : html`<a href=${view.link({ model: each.id, metric: undefined })}>Candidate metrics</a>`}
          </p>
        </li>`,
      )}
    </ol>
    ${found.left_out ? html`<p class="muted">and ${found.left_out} older ones</p>` : nothing}
  </section>`;
}

/** One metric: its description, and its series beside the performance. */
function one(view, data) {
  const { series, problem, chosen, shown } = data;
  if (problem) return html`<section class="card"><h2>${problem.message}</h2><p>Expected: ${problem.expected}.</p></section>`;
  if (!series) return html`<section class="card"><p>No metric of its hosts explains the ${shown.named}. The model predicts the mean.</p></section>`;
  const { metric } = series;
  const shared = { marks: built(series.rebuilt), sync: SYNC, ...stretch(view.page.params) };
  const ranged = (event) => zoom(view, event);
  const term = shown.terms.find((each) => each.metric.metric === chosen);
  return html`<section class="card">
    <h2>${sentence(capital(metric.description))}</h2>
    <p><code>${printable(metric.metric)}</code> ${resource(metric)} ${wished(data.models, metric.metric)}</p>
    ${wishes(view, data, metric.metric)}
    ${range(view, series.ts)}
    <h3>Mean per interval</h3>
    <laggard-chart
      .height=${170}
      .label=${`${capital(metric.description).replaceAll("`", "")}, mean per interval`}
      .chart=${{ feature: metric.feature.split("{")[0], ts: series.ts, lines: [{ label: metric.feature, values: series.values }], ...shared }}
      @range=${ranged}
    ></laggard-chart>
    <h3>${capital(series.named)} in the same intervals</h3>
    <laggard-chart
      .height=${170}
      .label=${`${capital(series.named)} in the same intervals`}
      .chart=${{ feature: series.performance, ts: series.ts, lines: [{ label: series.performance, values: series.measured }], ...shared }}
      @range=${ranged}
    ></laggard-chart>
    ${term ? html`${family(term)} ${whatIf(view, series)}` : nothing}
  </section>`;
}

function wishes(view, { models: { pinned, banned } }, metric) {
  if (!view.page.cluster.writes) return nothing;
  const decided = pinned.includes(metric) || banned.includes(metric);
  return html`<p class="applications-wishes">
    <button ?disabled=${pinned.includes(metric)} @click=${() => view.wish(metric, "pin")}>Pin</button>
    <button ?disabled=${banned.includes(metric)} @click=${() => view.wish(metric, "ban")}>Ban</button>
    ${decided ? html`<button @click=${() => view.wish(metric, "free")}>Free</button>` : nothing}
  </p>`;
}

function family({ family: those }) {
  if (!those.length) return nothing;
  return html`<details>
    <summary>${those.length === 1 ? "1 metric" : `${those.length} metrics`} with the same information</summary>
    <ul>
      ${those.slice(0, 50).map((each) => html`<li><code>${printable(each)}</code></li>`)}
    </ul>
  </details>`;
}

function whatIf(view, { metric }) {
  const ask = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target).get("value").trim();
    const value = given.endsWith("%") ? Number(given.slice(0, -1)) / 100 : Number(given);
    if (given === "" || !Number.isFinite(value)) {
      view.answer = { metric: metric.metric, sentences: ["Enter a number, for example 0.2, 20% or 5e6."] };
    } else {
      const asked = { application: view.application, metric: metric.metric, value };
      const { sentences } = await get("/applications/what-if", asked).catch((error) => ({ sentences: [error.text ?? error.message] }));
      view.answer = { metric: metric.metric, sentences };
    }
    view.page.update();
  };
  const answer = view.answer?.metric === metric.metric ? view.answer.sentences : [];
  return html`<form class="applications-what-if" @submit=${ask}>
      <label>Predict at <input name="value" inputmode="decimal" size="8" autocomplete="off" placeholder=${metric.feature.endsWith("_ratio") ? "20%" : "0"} /></label>
      <button>Predict</button>
    </form>
    <div role="status">${answer.map((each) => html`<p>${sentence(each)}</p>`)}</div>`;
}
