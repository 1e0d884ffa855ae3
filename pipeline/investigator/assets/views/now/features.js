/** The features of the selected process beside their baselines, the largest deviation first. */

import { repeat } from "../../packages/lit-html/directives/repeat.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { duration, readable } from "../../format.js";
import { featureScored, greatest } from "./bar.js";
import { rove } from "./grid.js";
import { badge, HOST } from "./ranking.js";
import { sentence } from "../../sentence.js";

/** The PID, user, container and command of a row. */
export function identity(row) {
  const known = [
    ["PID", row.pid],
    ["user", row.user],
    ["container", row.container],
  ].filter(([, value]) => value);
  return html`${known.length
      ? html`<p class="now-identity muted">${known.map(([name, value]) => html`<span>${name} <b>${value}</b></span> `)}</p>`
      : nothing}
    ${row.command ? html`<p class="now-full"><code>${row.command}</code></p>` : nothing}`;
}

export function features(view) {
  const short = view.find(view.chosen);
  const own = view.row?.row;
  const whole = own && (own.row === view.chosen || (view.chosen === HOST && view.row.scope === HOST)) ? own : undefined;
  const row = whole ?? short;
  if (!row) {
    return html`<section class="card now-features" tabindex="-1" aria-label="Features">
      <h2>No data at this moment</h2>
      <p class="muted"><code>${view.chosen}</code> has no values at this moment. Select another process or moment.</p>
    </section>`;
  }
  const most = greatest(row.features.map((each) => each.score));
  const host = view.chosen === HOST;
  return html`<section class="card now-features" tabindex="-1" aria-label="Features of ${host ? view.host : row.name}">
    <div class="now-head">
      <h2>${host ? view.host : row.name}${host ? html` <span class="badge">host</span>` : badge(row)}</h2>
      ${row.age_s !== null && row.age_s !== undefined ? html`<span class="muted now-aside">model age ${duration(row.age_s)}</span>` : nothing}
    </div>
    ${identity(row)} ${row.basis_text ? html`<p class="muted now-basis">${sentence(row.basis_text)}</p>` : nothing}
    <div class="now-scroll">
      <table role="grid" aria-label="Features, the largest deviation first" aria-busy=${!whole}>
        <thead>
          <tr>
            <th scope="col">Feature</th>
            <th scope="col" class="number">Value</th>
            <th scope="col" class="number">Baseline</th>
            <th scope="col" class="number now-recent">Recent</th>
            <th scope="col" class="number">Score</th>
          </tr>
        </thead>
        ${featuresBody(
          view,
          row,
          (each) => html`<td class="number">${readable(each.feature, each.value)}</td>
            <td class="number">${spread(each)}</td>
            <td class="number now-recent">${readable(each.feature, each.recent)}</td>
            <td class="number now-score">${featureScored(each.score, most)}</td>`,
        )}
      </table>
    </div>
  </section>`;
}

/** The features of a row as a table's body: the name of each, then its `cells`. */
export function featuresBody(view, { features: listed }, cells) {
  const { chosen, feature: drawn } = view;
  return html`<tbody @keydown=${(event) => rove(event, (to) => view.page.go({ row: chosen, feature: to.dataset.feature }, { replace: true }))}>
    ${repeat(
      listed,
      (each) => each.feature,
      (each) => html`<tr
        tabindex=${each.feature === drawn ? 0 : -1}
        data-feature=${each.feature}
        aria-selected=${each.feature === drawn}
        @click=${() => view.page.go({ row: chosen, feature: each.feature })}
      >
        <th scope="row"><span class="now-feature">${parts(each.feature)}</span></th>
        ${cells(each)}
      </tr>`,
    )}
  </tbody>`;
}

/** A feature's name, with possible line breaks between its words. */
function parts(feature) {
  return feature.split("_").map((word, index) => (index ? html`_<wbr />${word}` : word));
}

/** The baseline: the mean, and its spread. */
function spread(each) {
  if (each.mean === null || each.mean === undefined) return html`<span class="muted">-</span>`;
  return html`${readable(each.feature, each.mean)} <span class="muted now-spread">± ${readable(each.feature, each.standard_deviation)}</span>`;
}
