/** Configuration: what the models of an application are built from, and how. */

import { get } from "../../api.js";
import { duration, printable, readable } from "../../format.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import { capital, steps } from "./shared.js";

export async function load(view, signal) {
  return get("/applications/configuration", { application: view.application }, signal);
}

export function render(view, data) {
  return html`
    ${data.steps.length
      ? html`<section class="card">
          <h2>What a model of it takes</h2>
          ${steps(data.steps)}
        </section>`
      : nothing}
    <div class="applications-cards">${performance(data)} ${hosts(data)} ${wishes(view, data)}</div>
    ${parameters(data)}
  `;
}

function performance({ sources, performance: measured, interval_s, ts }) {
  return html`<section class="card">
    <h2>Performance</h2>
    ${measured.length
      ? html`<p>Measured every ${duration(interval_s)}, at last ${time(ts)}.</p>
          <table>
            <thead>
              <tr><th scope="col">Metric</th><th scope="col" class="number">Newest</th></tr>
            </thead>
            <tbody>
              ${measured.map(
                (each) => html`<tr>
                  <th scope="row">${capital(each.named)}<br /><code>${printable(each.performance)}</code>${each.explained ? nothing : html` <span class="muted">not explained</span>`}</th>
                  <td class="number">${readable(each.performance, each.value)}</td>
                </tr>`,
              )}
            </tbody>
          </table>`
      : html`<p class="muted">${ts === null && interval_s === null ? "Nothing was measured yet." : "No interval is over yet."}</p>`}
    <h3>Sources</h3>
    ${sources.length
      ? html`<ul>
          ${sources.map((each) => html`<li>${source(each)}: ${each.reads.map((one) => html`<code>${printable(one)}</code> `)}</li>`)}
        </ul>`
      : html`<p class="muted">None in the settings of this page: another machine measures it, or <code>laggard measure</code> with other settings.</p>`}
  </section>`;
}

/** What a source is called, and how often it is asked; lines are read as they come. */
function source({ name, kind, interval_s }) {
  const called = name === kind ? kind : `${printable(name)} (${kind})`;
  return kind === "lines" ? called : `${called}, every ${duration(interval_s)}`;
}

function hosts({ hosts: those, patterns, pattern }) {
  return html`<section class="card">
    <h2>Hosts</h2>
    ${those.length
      ? html`<table>
          <thead>
            <tr><th scope="col">Host</th><th scope="col">Tier</th><th scope="col" class="number">Metrics</th></tr>
          </thead>
          <tbody>
            ${those.map(
              (each) => html`<tr>
                <th scope="row">${printable(each.host)}</th>
                <td>${printable(each.tier)}</td>
                <td class="number">${each.metrics.toLocaleString("en-US")}</td>
              </tr>`,
            )}
          </tbody>
        </table>`
      : html`<p class="muted">No counters of any host are recorded for it.</p>`}
    <p class="muted">
      ${patterns.length
        ? html`<code>applications.hosts</code> names ${patterns.map((each, index) => html`${index ? ", " : ""}<code>${printable(each)}</code>`)}.`
        : html`<code>applications.hosts</code> of this page's settings says nothing of it.`}
      ${pattern ? html`<code>applications.pattern</code> is <code>${printable(pattern)}</code>.` : nothing}
    </p>
  </section>`;
}

function wishes(view, { pinned, banned, waiting }) {
  const one = (metric, state, removable) => html`<li>
    <code>${printable(metric.metric)}</code> <span class="badge">${state}</span>
    <p class="muted">${metric.description}</p>
    ${removable && view.page.cluster.writes ? html`<button @click=${() => view.wish(metric.metric, "free")} aria-label="Free ${printable(metric.metric)}">Free</button>` : nothing}
  </li>`;
  return html`<section class="card">
    <h2>Wishes</h2>
    ${pinned.length + banned.length + waiting.length
      ? html`<ul class="applications-wished">
          ${pinned.map((each) => one(each, "pinned", true))} ${banned.map((each) => one(each, "banned", true))}
          ${waiting.map((each) => one(each.metric, `${each.wish}, from the next interval on`, false))}
        </ul>`
      : html`<p class="muted">None. Metrics are pinned into the models, and banned from them, in <a href=${view.link({ tab: "analysis" })}>Analysis</a>.</p>`}
  </section>`;
}

function parameters({ parameters: those }) {
  return html`<section class="card">
    <h2>Method and parameters</h2>
    <p class="muted">By the settings of this page. A worker on another machine has its own.</p>
    <div class="scrolls" tabindex="0" role="region" aria-label="Parameters">
      <table>
        <thead>
          <tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">Given by</th><th scope="col">What it is</th></tr>
        </thead>
        <tbody>
          ${those.map(
            (each) => html`<tr>
              <th scope="row"><code>${each.setting}</code></th>
              <td class="applications-value"><code>${each.value}</code></td>
              <td class="muted">${printable(each.place)}</td>
              <td class="applications-help">${sentence(each.help)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}
