/** The page of one incident. */

import { get, Refusal } from "../../api.js";
import { duration, moment, readable, score, usual } from "../../format.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { address, stretch } from "../../state.js";
import { sentence } from "../../sentence.js";
import { time } from "../../time.js";
import { Copying } from "./copying.js";
import { Feedback } from "./feedback.js";
import { phases } from "./phases.js";
import { Profile } from "./profile.js";
import { timeline, whole } from "./timeline.js";
import { state, whose, worst } from "./words.js";

/** The size of a ranking: features of each row, and rows. */
const FEATURES = 3;
const ROWS = 5;

/** Rows below this share of the first row's score are hidden. */
const FAINT = 0.05;

/** The time before the onset that it is compared with, in seconds. */
const BEFORE_S = 300;

/** The delay before a partial series is requested again, and the number of attempts. */
const AGAIN_MS = 700;
const AGAIN = 20;

/** The view for each kind of subject. */
const PLACES = { application: "/applications", pool: "/pools", service: "/requests" };

/** The kind of the same subject for another method. */
const OTHERS = { application: "service", service: "application" };

/** The rows worth showing; the first one is the worst. */
function notable(rows, severity) {
  return rows.filter((row, place) => !place || severity(row) > FAINT * severity(rows[0])).slice(0, ROWS);
}

export default class One {
  #id;
  #account;
  #series;
  #asked = "";
  #differs;
  #similar;
  #beside;
  #diagnoses = [];
  #timer;
  #reading = new AbortController();

  constructor(page) {
    this.page = page;
    this.copying = new Copying(page);
    this.profile = new Profile(page);
    this.feedback = new Feedback(page);
  }

  async load(signal, news) {
    const { id } = this.page.params;
    const other = id !== this.#id;
    if (other || news.size) {
      // The whole id is faster than a prefix.
      const account = await get("/incident", { id: other ? id : this.#account.incident.id }, signal);
      await this.feedback.load(account.incident, signal);
      if (other) {
        this.leave();
        this.#reading = new AbortController();
        this.#series = this.#differs = this.#similar = this.#beside = undefined;
        this.#diagnoses = [];
        this.#asked = "";
      }
      this.#account = account;
      this.#id = id;
      document.title = `${whose(account.incident)}: incident - laggard`;
      if (other) this.#readMore(id);
      if (account.incident.keyed_by in OTHERS) this.#later("/incident/beside", { id }, (found) => (this.#beside = found));
      if (other || news.has("diagnoses")) this.#later("/incident/diagnoses", { id }, (found) => (this.#diagnoses = found.diagnoses));
    }
    this.#readSeries(news.size > 0);
    await this.profile.load(this.#chosenDiagnosis(), signal, news);
  }

  shows() {
    return this.#account !== undefined && this.#id === this.page.params.id;
  }

  leave() {
    clearTimeout(this.#timer);
    this.#reading.abort();
  }

  /** Load a part that may come later, or be missing. */
  async #later(path, question, keep) {
    const { signal } = this.#reading;
    try {
      keep(await get(path, question, signal));
      this.page.update();
      await this.profile.load(this.#chosenDiagnosis(), signal, new Set());
      this.page.update();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      if (error.status !== 404) this.page.notify(error.text, "error");
    }
  }

  #readMore(id) {
    const { incident, seen } = this.#account;
    this.#later("/incident/similar", { id }, (found) => (this.#similar = found));
    if (incident.keyed_by !== "host") return;
    const at = seen.find((each) => each.at !== null)?.at ?? incident.opened_ts;
    const before = incident.opened_ts - BEFORE_S;
    this.#later("/compare", { host: incident.key, at, with: before, rows: ROWS, features: FEATURES }, (found) => (this.#differs = found));
  }

  /** Load the series of the culprit's counter for the visible range. */
  #readSeries(again) {
    const about = this.#measured();
    if (!about) return;
    const { from, to } = this.#range();
    const { incident } = this.#account;
    const asked = { host: incident.key, ...about, at: incident.opened_ts, from, to, points: 800 };
    // The end of an open incident moves; a new report requests the series again.
    const key = JSON.stringify({ ...asked, to: this.page.params.to ?? "" });
    if (key === this.#asked && !(again && incident.open)) return;
    this.#asked = key;
    clearTimeout(this.#timer);
    const ask = (left) =>
      this.#later("/series", asked, (found) => {
        if (this.#asked !== key) return;
        this.#series = found;
        if (!found.complete && left) this.#timer = setTimeout(() => ask(left - 1), AGAIN_MS);
      });
    ask(AGAIN);
  }

  /** The row and counter in the incident's sentence; undefined if the subject is not a host. */
  #measured() {
    const { incident, seen } = this.#account;
    const { blamed } = incident;
    if (incident.keyed_by !== "host" || !blamed?.feature) return undefined;
    const scope = seen.find((each) => each.blamed?.row === blamed.row && each.blamed.feature === blamed.feature)?.scope;
    return scope ? { row: scope === "host" ? "host" : blamed.row, feature: blamed.feature, scope } : undefined;
  }

  #range() {
    const all = whole(this.#account.incident, this.#account.now);
    const { from = all.from, to = all.to } = stretch(this.page.params);
    return { from, to: Math.max(to, from + 1) };
  }

  #chosenDiagnosis() {
    return this.#diagnoses.find((each) => each.id === this.page.params.diagnosis) ?? this.#diagnoses[0];
  }

  render() {
    const { incident } = this.#account;
    const { page } = this;
    return html`
      <p><a href=${page.href("/incidents")}>All incidents</a></p>
      <h1>${state(incident)} ${whose(incident)}${incident.blamed ? html`: ${incident.blamed.name}` : nothing}</h1>
      <section class="card">
        <p class="incidents-sentence">${sentence(incident.sentence)}</p>
        ${incident.silence ? html`<p class="incidents-warning">${incident.silence}</p>` : nothing}
        ${incident.merged_into
          ? html`<p><a href=${page.href("/incidents", { id: incident.merged_into })}>Merged into another incident</a>: both have the same cause.</p>`
          : nothing}
        ${incident.live ? nothing : html`<p class="muted">From a replayed recording.</p>`}
        <dl class="incidents-facts">
          <div><dt>Onset</dt><dd>${time(incident.opened_ts)}</dd></div>
          <div><dt>${incident.open ? "Duration" : "End"}</dt><dd>${incident.open ? duration(incident.lasted_s) : html`${time(incident.until_ts)}, after ${duration(incident.lasted_s)}`}</dd></div>
          <div><dt>Worst score</dt><dd>${worst(incident.score)}</dd></div>
          ${this.#renderFigure()}
        </dl>
        <p class="incidents-actions">
          ${incident.keyed_by === "host"
            ? html`<a class="button" href=${this.#moment(incident.opened_ts)}>Host at the onset</a>
                ${incident.open ? html`<a class="button" href=${page.href("/", { host: incident.key })}>Host now</a>` : nothing}`
            : html`<a class="button" href=${this.#place(incident)}>The ${incident.keyed_by} at the onset</a>`}
          <button type="button" @click=${() => this.copying.copy(this.#link(), "the link")}>Copy link</button>
          <button type="button" @click=${() => this.#copyMarkdown()}>Copy as Markdown</button>
        </p>
        ${this.copying.render()}
      </section>
      ${this.feedback.render(incident)} ${this.#renderTimeline()} ${this.#renderSeen()} ${this.#renderBeside()} ${this.#renderPhases()} ${this.profile.render(this.#diagnoses, this.#chosenDiagnosis())}
      ${this.#renderDiffers()} ${this.#renderModels()} ${this.#renderSimilar()}
    `;
  }

  /** The culprit's counter, from the ranking behind the sentence. */
  #renderFigure() {
    const { incident, seen } = this.#account;
    const { row, feature } = incident.blamed ?? {};
    const found = seen
      .filter((each) => each.blamed?.row === row)
      .flatMap((each) => each.rows.filter((ranked) => ranked.row === row).flatMap((ranked) => ranked.features))
      .find((each) => each.feature === feature);
    if (!found) return nothing;
    return html`<div>
      <dt>${feature}</dt>
      <dd>${readable(feature, found.value)}, baseline ${usual(feature, found.mean, found.standard_deviation)}</dd>
    </div>`;
  }

  /** The address of this page: under `serve.url` if that is set, else under the browser's origin. */
  #link() {
    const base = this.page.cluster.url || location.origin;
    return base + address(location.pathname, { ...this.page.params, id: this.#account.incident.id });
  }

  async #copyMarkdown() {
    try {
      const { text } = await get("/incident/markdown", { id: this.#id, link: this.#link() });
      await this.copying.copy(text, "the incident as Markdown");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.page.notify(error.text, "error");
    }
  }

  #moment(at, params = {}) {
    return this.page.href("/", { host: this.#account.incident.key, at, ...params });
  }

  /** The address of the view with an operator's finding. */
  #place({ keyed_by, key }, at = this.#account.incident.opened_ts, row = undefined, feature = undefined) {
    if (keyed_by === "host") return this.#moment(at, { row, feature });
    const member = keyed_by === "pool" ? { member: row } : keyed_by === "service" ? { cluster: row } : {};
    return this.page.href(PLACES[keyed_by], { host: undefined, [keyed_by]: key, at, ...member });
  }

  /** The address for a row of a ranking. Other rows than an application's own are rows of its hosts. */
  #row({ at }, { row, features }) {
    const { incident } = this.#account;
    if (incident.keyed_by === "application" && row !== incident.key) return this.page.href("/", { host: row.split("/")[0], at });
    return this.#place(incident, at, row, features[0]?.feature);
  }

  #renderTimeline() {
    const range = this.#range();
    const span = range.to - range.from;
    const show = (from, to) => this.page.go({ from: Math.round(from), to: Math.round(to) }, { replace: true });
    const shown = this.page.params.from || this.page.params.to;
    const { reports, reports_left_out: left_out, marks } = this.#account;
    return html`<section class="card">
      <h2>Timeline</h2>
      <p class="incidents-actions" role="group" aria-label="Range of the timeline">
        <button type="button" @click=${() => show(range.from - span / 2, range.to - span / 2)}>Earlier</button>
        <button type="button" @click=${() => show(range.from + span / 2, range.to + span / 2)}>Later</button>
        <button type="button" ?disabled=${span < 20} @click=${() => show(range.from + span / 4, range.to - span / 4)}>Zoom in</button>
        <button type="button" ?disabled=${span > 30 * 86400} @click=${() => show(range.from - span / 2, range.to + span / 2)}>Zoom out</button>
        <button type="button" ?disabled=${!shown} @click=${() => this.page.go({ from: undefined, to: undefined }, { replace: true })}>Reset</button>
      </p>
      ${timeline(this.#account, this.#diagnoses, range)}
      <p class="muted">
        <span class="incidents-key opened">opened</span> <span class="incidents-key extended">worse, or still open</span>
        <span class="incidents-key ended">ended</span>, with scores${marks.length ? html`; dashed: marks` : nothing}.
      </p>
      ${this.#series ? this.#renderSeries(range) : nothing}
      <details>
        <summary>Reports as a table (${reports.length + left_out})</summary>
        <div class="scrolls" tabindex="0" role="region" aria-label="Reports">
          <table>
            <thead><tr><th scope="col">Time</th><th scope="col">Source</th><th scope="col">Change</th><th scope="col" class="number">Score</th><th scope="col">Text</th></tr></thead>
            <tbody>
              ${[...reports.map((each) => [each.ts, each.operator, each.change, each.score, sentence(each.sentence)]), ...marks.map((each) => [each.ts, "mark", "marked", undefined, each.note])]
                .sort((a, b) => a[0] - b[0])
                .map(
                  ([ts, who, what, at, text]) =>
                    html`<tr><td class="incidents-when">${time(ts)}</td><td>${who}</td><td>${what}</td><td class="number">${at === undefined ? "-" : worst(at)}</td><td class="incidents-description">${text}</td></tr>`,
                )}
            </tbody>
          </table>
        </div>
        ${left_out ? html`<p class="muted">and ${left_out} later ones</p>` : nothing}
      </details>
    </section>`;
  }

  #renderSeries({ from, to }) {
    const { incident } = this.#account;
    const { ts, values, low, high, band, feature, marks, complete } = this.#series;
    const about = { row: this.#series.row, feature };
    const name = this.#series.scope === "host" ? incident.key : incident.blamed.name;
    const chart = {
      feature,
      ts,
      lines: [{ label: feature, values }],
      extremes: { low, high },
      band: band ?? undefined,
      moment: incident.opened_ts,
      marks: marks.map((mark) => ({ ts: mark.ts, label: mark.note || "mark" })),
      spans: [{ from: incident.opened_ts, to: incident.until_ts }],
      from,
      to,
    };
    return html`<h3>${feature} of ${name}</h3>
      <laggard-chart
        .chart=${chart}
        .height=${180}
        .label=${`${feature} of ${name} from ${moment(from)} to ${moment(to)}, with its baseline and the incident`}
        @range=${(event) => this.page.go({ from: Math.round(event.detail.from), to: Math.round(event.detail.to) }, { replace: true })}
        @pick=${(event) => this.page.go({ host: incident.key, at: event.detail.ts, ...about }, { path: "/" })}
      ></laggard-chart>
      <p class="muted">
        Green: the baseline. Line: the onset. Red: the incident.${complete ? "" : " Loading more points…"}
        <a href=${this.#moment(incident.opened_ts, about)}>All its features at the onset</a>
      </p>`;
  }

  #renderSeen() {
    const { seen, seen_left_out, incident } = this.#account;
    return html`<section class="card">
      <h2>Findings by operator</h2>
      ${seen.map(
        (each) => html`<article class="incidents-seen">
          <h3>${each.operator}${each.scope ? html` <span class="muted">(${each.scope})</span>` : nothing}, score ${worst(each.score)}</h3>
          <p class="muted">
            ${each.until_ts === null ? html`Open since ${time(each.opened_ts)}` : html`From ${time(each.opened_ts)} to ${time(each.until_ts)}`}${each.young ? ", during warm-up" : ""}.
            <a href=${this.#place(incident, each.at ?? each.opened_ts, each.blamed?.row, each.blamed?.feature)}>Show it there</a>${incident.keyed_by === "application" && each.blamed
              ? html`, or <a href=${this.page.href("/", { host: each.blamed.name, at: each.opened_ts })}>host ${each.blamed.name} at the onset</a>`
              : nothing}
          </p>
          <p>${sentence(each.sentence)}</p>
          ${each.rows.length ? this.#ranking(each) : nothing}
        </article>`,
      )}
      ${seen_left_out ? html`<p class="muted">and ${seen_left_out} more that have ended</p>` : nothing}
    </section>`;
  }

  #ranking(seen) {
    const { incident } = this.#account;
    return html`<div class="scrolls" tabindex="0" role="region" aria-label="Ranking of ${seen.operator}, ${seen.scope}">
      <table>
        <caption class="muted">At ${time(seen.at)}, worst first</caption>
        <thead><tr><th scope="col">Row</th><th scope="col" class="number">Score</th><th scope="col">Feature</th><th scope="col" class="number">Value</th><th scope="col" class="number">Baseline</th><th scope="col" class="number">Feature score</th></tr></thead>
        <tbody>
          ${notable(seen.rows, (row) => row.score ?? Infinity).map((row) => {
            const features = row.features.slice(0, FEATURES);
            const lines = features.length ? features : [undefined];
            return lines.map(
              (feature, place) =>
                html`<tr>
                  ${place === 0
                    ? html`<th scope="rowgroup" rowspan=${lines.length}>
                          <a href=${this.#row(seen, row)} title=${row.row}>${row.name || row.row}</a>
                          ${row.waits ? html`<span class="badge victim">waits</span>` : nothing}
                        </th>
                        <td class="number" rowspan=${lines.length}>${worst(row.score)}</td>`
                    : nothing}
                  ${feature
                    ? html`<td><code>${feature.feature}</code></td>
                        <td class="number">${readable(feature.feature, feature.recent ?? feature.value)}</td>
                        <td class="number">${row.basis === "threshold" ? "more than " : ""}${usual(feature.feature, feature.mean, feature.standard_deviation)}</td>
                        <td class="number">${score(feature.score)}</td>`
                    : html`<td colspan="4">no single feature</td>`}
                </tr>`,
            );
          })}
        </tbody>
      </table>
    </div>`;
  }

  #renderBeside() {
    const found = this.#beside;
    if (!found?.sentences.length) return nothing;
    const { incident } = this.#account;
    return html`<section class="card">
      <h2>${found.title}</h2>
      <ul>${found.sentences.map((each) => html`<li>${sentence(each)}</li>`)}</ul>
      <p>
        ${found.incident ? html`<a href=${this.page.href("/incidents", { id: found.incident })}>Its incident</a>, ` : nothing}
        <a href=${this.#place({ ...incident, keyed_by: OTHERS[incident.keyed_by] })}>more at the onset</a>
      </p>
    </section>`;
  }

  #renderPhases() {
    const events = this.#account.seen.flatMap((each) => each.rows.filter((row) => row.phases.length).map((row) => [each, row]));
    if (!events.length) return nothing;
    return html`<section class="card">
      <h2>Phases of high use</h2>
      ${events.slice(0, ROWS).map(
        ([seen, row]) => html`<h3>${row.name || row.row}, by ${seen.operator}</h3>
          ${phases(
            row.phases.map((each) => ({ ...each, value: each.mean })),
            row.features[0]?.feature ?? "",
            row.name || row.row,
          )}`,
      )}
    </section>`;
  }

  #renderDiffers() {
    const found = this.#differs;
    if (!found) return nothing;
    const rows = [...(found.host_row ? [{ ...found.host_row, name: "host", row: "host" }] : []), ...notable(found.rows, (row) => Math.abs(row.differs))];
    return html`<section class="card">
      <h2>Changes</h2>
      <p>
        The largest differences between ${time(found.at)} and ${time(found.with)}, ${duration(found.at - found.with)} before.
        <a href=${this.#moment(found.at, { compare: found.with })}>All differences</a>
      </p>
      <div class="scrolls" tabindex="0" role="region" aria-label="Changes">
        <table>
          <thead><tr><th scope="col">Row</th><th scope="col">Feature</th><th scope="col" class="number">Before</th><th scope="col" class="number">After</th></tr></thead>
          <tbody>
            ${rows.map((row) => {
              const features = row.features.slice(0, FEATURES);
              return features.map(
                (each, place) =>
                  html`<tr>
                    ${place === 0
                      ? html`<th scope="rowgroup" rowspan=${features.length}>
                          <a href=${this.#moment(found.at, { row: row.row, feature: each.feature })}>${row.name || row.row}</a>
                          ${row.there === "at" ? html`<span class="badge">new</span>` : row.there === "with" ? html`<span class="badge">gone</span>` : nothing}
                        </th>`
                      : nothing}
                    <td><code>${each.feature}</code></td>
                    <td class="number">${readable(each.feature, each.with?.value)}</td>
                    <td class="number">${readable(each.feature, each.at?.value)}</td>
                  </tr>`,
              );
            })}
          </tbody>
        </table>
      </div>
    </section>`;
  }

  #renderModels() {
    const { models, incident } = this.#account;
    if (!models.length) return nothing;
    return html`<section class="card">
      <h2>Changes of its model</h2>
      ${models.map(
        (each) => html`<h3>${each.performance}</h3>
          <p><code>${each.equation}</code></p>
          <p>Built ${time(each.built_ts)}${each.change ? html`; compared with the previous one: ${each.change}` : html`; no previous one is known`}.</p>`,
      )}
      <p><a href=${this.page.href("/applications", { host: undefined, application: incident.key, tab: "analysis" })}>All its models</a></p>
    </section>`;
  }

  #renderSimilar() {
    if (!this.#similar) return nothing;
    const { similar, since } = this.#similar;
    return html`<section class="card">
      <h2>Similar earlier incidents</h2>
      ${similar.length
        ? html`<ol class="incidents-similar">
            ${similar.map(
              ({ incident, similarity, common }) => html`<li>
                <p>
                  <a href=${this.page.href("/incidents", { id: incident.id })}>${whose(incident)}${incident.blamed ? html`: ${incident.blamed.name}` : nothing}</a>,
                  ${time(incident.opened_ts)}, ${incident.open ? "open for" : "lasted"} ${duration(incident.lasted_s)}
                </p>
                <p class="muted">${Math.round(100 * similarity)} % similar: ${common.join(", ")}.</p>
              </li>`,
            )}
          </ol>`
        : html`<p class="muted">None since ${time(since)}.</p>`}
    </section>`;
  }
}
