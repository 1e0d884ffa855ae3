/** Configuration: the sources, hosts, wishes and parameters of an application's models. */

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
          <h2>Missing for a model</h2>
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
      ? html`<p>Measured every ${duration(interval_s)}, most recently ${time(ts)}.</p>
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
      : html`<p class="muted">${ts === null && interval_s === null ? "No measurements yet." : "The first interval is not complete yet."}</p>`}
    <h3>Sources</h3>
    ${sources.length
      ? html`<ul>
          ${sources.map((each) => html`<li>${source(each)}: ${each.reads.map((one) => html`<code>${printable(one)}</code> `)}</li>`)}
        </ul>`
      : html`<p class="muted">None in the settings of this page. Another machine measures it, or <code>laggard measure</code> runs with other settings.</p>`}
  </section>`;
}

/** The name of a source, and its interval; lines have none. */
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
      : html`<p class="muted">No counters of its hosts are recorded.</p>`}
    <p class="muted">
      ${patterns.length
        ? html`<code>applications.hosts</code> contains ${patterns.map((each, index) => html`${index ? ", " : ""}<code>${printable(each)}</code>`)}.`
        : html`<code>applications.hosts</code> in this page's settings does not contain it.`}
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
          ${waiting.map((each) => one(each.metric, `${each.wish}, from the next interval`, false))}
        </ul>`
      : html`<p class="muted">None. Pin or ban metrics in <a href=${view.link({ tab: "analysis" })}>Analysis</a>.</p>`}
  </section>`;
}

function parameters({ parameters: those }) {
  return html`<section class="card">
    <h2>Method and parameters</h2>
    <p class="muted">From the settings of this page. A worker on another machine has its own.</p>
    <div class="scrolls" tabindex="0" role="region" aria-label="Parameters">
      <table>
        <thead>
          <tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">Source</th><th scope="col">Description</th></tr>
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
