/** Now, or another moment: processes by score, the features of one, and the time series of one feature. */

import { get, Refusal, unlessMissing } from "../api.js";
import { html } from "../packages/lit-html/lit-html.js";
import { number, seconds, stretch } from "../state.js";
import { dialogs, letters, openKeys, openMark } from "./now/dialogs.js";
import { comparedFeatures, comparedRanking } from "./now/compare.js";
import { features } from "./now/features.js";
import { findings, nothingRecorded } from "./now/findings.js";
import { focusRow, HOST, openRow, ranking, shownRows } from "./now/ranking.js";
import { series, shownRange } from "./now/series.js";
import { times, timeWindow } from "./now/times.js";

const COUNTERS = "counters";
const POINTS = 1200;
const TIMELINE_POINTS = 400;

/** The size of a comparison: rows, and features of each. */
const COMPARED_ROWS = 200;
const COMPARED_FEATURES = 20;

/** The delay before a partial series is requested again, and the age at which the timeline is. */
const REFINE_MS = 350;
const TIMELINE_MS = 15_000;

/** The part of the series after the moment, which shows recovery. */
const AFTER_S = 300;

export default class View {
  topics = [COUNTERS, "anomalies"];

  /** The answers of /moment, /row, /series, /timeline, /compare. */
  moment;
  row;
  series;
  timeline;
  comparison;

  /** The error of the moment, and of the series. */
  problem;
  seriesProblem;

  /** Whether another moment than the displayed one is being loaded. */
  busy = false;

  /** Whether all rows are shown, and the series as a table. */
  all = false;
  table = false;

  /** The announcement for screen readers. */
  announced = "";

  #keys = {};
  #stepped;
  #timelineRead = 0;
  #pressed = (event) => this.#press(event);

  constructor(page) {
    this.page = page;
    document.addEventListener("keydown", this.#pressed);
  }

  leave() {
    document.removeEventListener("keydown", this.#pressed);
  }

  shows() {
    return this.moment !== undefined;
  }

  /** The selected moment; undefined for now. */
  get at() {
    return number(this.page.params, "at");
  }

  /** The second moment of a comparison; undefined without one. */
  get other() {
    return number(this.page.params, "compare");
  }

  /** The selected host. */
  get host() {
    return this.page.params.host || this.page.cluster.host;
  }

  /** The id of the selected row; by default the culprit's. */
  get chosen() {
    const { params } = this.page;
    if (params.row) return params.row;
    if (this.comparison) return this.comparison.rows[0]?.row ?? HOST;
    const { moment } = this;
    if (!moment) return undefined;
    const { subject } = moment;
    return subject?.scope === HOST ? HOST : (subject?.row ?? moment.rows[0]?.row ?? HOST);
  }

  /** The feature of the selected row in the chart; by default the one with the largest deviation. */
  get feature() {
    if (this.page.params.feature) return this.page.params.feature;
    const { chosen } = this;
    if (this.comparison) return this.compared(chosen)?.features[0]?.feature;
    const { subject } = this.moment;
    const about = subject && (subject.row === chosen || (subject.scope === HOST && chosen === HOST));
    return about ? subject.feature : this.find(chosen)?.features[0]?.feature;
  }

  /** A row of the moment, by id. */
  find(row) {
    if (row === HOST) return this.moment?.host_row ?? undefined;
    return this.moment?.rows.find((each) => each.row === row);
  }

  /** A row of the comparison, by id. */
  compared(row) {
    if (row === HOST) return this.comparison?.host_row ?? undefined;
    return this.comparison?.rows.find((each) => each.row === row);
  }

  choose(row, options = {}) {
    this.page.go({ row, feature: undefined }, options);
  }

  async load(signal, news) {
    if (!this.page.cluster.hosts.length) {
      this.moment = undefined;
      return;
    }
    if (!this.moment) this.page.update();
    const timeline = this.#readTimeline(signal, news.size > 0);
    timeline.catch(() => {}); // an error of the moment takes precedence
    await this.#readMoment(signal, news);
    if (this.#passed()) return;
    if (this.moment) {
      this.page.update();
      await Promise.all([this.#readRow(signal), this.#readSeries(signal)]);
    }
    await timeline;
  }

  /** Return to live after a step forward past the newest frame; whether this happened. */
  #passed() {
    const from = this.#stepped;
    this.#stepped = undefined;
    if (from === undefined || this.moment?.ts !== from) return false;
    this.page.go({ at: undefined }, { replace: true });
    return true;
  }

  async #readMoment(signal, news) {
    const { at, host, other } = this;
    const key = JSON.stringify([host, at, other]);
    const same = key === this.#keys.moment;
    // A past moment does not change; one after the newest frame may still get a frame.
    if (same && !(news.size && (at === undefined || !this.moment || at > (this.timeline?.last_ts ?? at)))) return;
    if (!same && this.moment) {
      this.busy = true;
      this.page.update();
    }
    try {
      const [moment, comparison] = await Promise.all([
        get("/moment", { host, at, features: 1 }, signal),
        other === undefined ? undefined : get("/compare", { host, at, with: other, rows: COMPARED_ROWS, features: COMPARED_FEATURES }, signal),
      ]);
      this.moment = moment;
      this.comparison = comparison;
      this.problem = undefined;
      if (!same && this.#keys.moment) this.announced = moment.sentences[0] ?? "";
    } catch (error) {
      if (error.name !== "AbortError") this.busy = false;
      if (!(error instanceof Refusal) || error.status !== 404) throw error;
      this.moment = this.comparison = this.row = this.series = undefined;
      this.problem = error;
    }
    this.busy = false;
    this.#keys.moment = key;
  }

  async #readRow(signal) {
    const { chosen, moment } = this;
    if (this.comparison) return;
    const key = JSON.stringify([moment.host, moment.ts, chosen]);
    if (key === this.#keys.row && this.row) return;
    if (!this.find(chosen) && !moment.rows_left_out) {
      this.row = undefined;
      this.#keys.row = key;
      return;
    }
    const row = await unlessMissing(get("/row", { host: moment.host, at: moment.ts, row: chosen }, signal));
    this.row = row;
    this.#keys.row = key;
    this.page.update();
  }

  async #readSeries(signal) {
    const { chosen, feature, moment } = this;
    if (!feature) {
      this.series = undefined;
      return;
    }
    const { from, to } = this.range;
    const question = {
      host: moment.host,
      row: chosen,
      feature,
      scope: chosen === HOST ? HOST : moment.scope,
      at: this.at === undefined ? undefined : moment.ts,
      from,
      to,
      points: POINTS,
    };
    const key = JSON.stringify([question, moment.ts]);
    if (key === this.#keys.series && this.series?.complete) return;
    try {
      this.series = await get("/series", question, signal);
      this.seriesProblem = undefined;
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) throw error;
      this.series = undefined;
      this.seriesProblem = error;
    }
    this.#keys.series = key;
    this.page.update();
    if (this.series && !this.series.complete) this.#refine("/series", question, (whole) => (this.series = whole), signal);
  }

  /** Repeat a request until its answer is complete, or the signal aborts. */
  #refine(path, question, take, signal) {
    const timer = setTimeout(async () => {
      try {
        const answer = await get(path, question, signal);
        if (signal.aborted) return;
        take(answer);
        this.page.update();
        if (!answer.complete) this.#refine(path, question, take, signal);
      } catch (error) {
        // Keep the partial answer; the next load requests it again.
        if (!(error instanceof Refusal) && error.name !== "AbortError") throw error;
      }
    }, REFINE_MS);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  }

  async #readTimeline(signal, fresh) {
    const { range } = this.page.params;
    const { at, host, timeline } = this;
    const key = JSON.stringify([host, range, at === undefined]);
    const covers = timeline && (at === undefined || (at >= timeline.from && at <= timeline.to));
    const old = performance.now() - this.#timelineRead > TIMELINE_MS;
    if (key === this.#keys.timeline && covers && timeline.complete && !(fresh && old)) return;
    const question = { host, ...timeWindow(this), points: TIMELINE_POINTS };
    const answer = await unlessMissing(get("/timeline", question, signal));
    if (!answer) return;
    this.timeline = answer;
    this.#keys.timeline = key;
    this.#timelineRead = performance.now();
    if (!answer.complete) this.#refine("/timeline", question, (whole) => (this.timeline = whole), signal);
  }

  /** Reload the timeline after a mark was set. */
  marked() {
    this.#keys.timeline = undefined;
  }

  /** The range of the chart: that of the address, else the context of the moment. */
  get range() {
    const { params } = this.page;
    const first = this.timeline?.first_ts;
    const { ts } = this.moment;
    const context = shownRange(params.range);
    const begin = context === undefined ? first : ts - context;
    const last = this.timeline && !this.moment.live ? Math.max(this.timeline.last_ts, ts) : ts;
    const given = stretch(params);
    const from = given.from ?? Math.max(begin ?? ts - 4 * 3600, first ?? -Infinity);
    const to = given.to ?? Math.min(ts + AFTER_S, last);
    return { from: Math.min(from, to - 10 * this.moment.tick_s), to };
  }

  /** Move some ticks back or forward; past the newest frame, return to live. */
  step(ticks) {
    const { at, moment } = this;
    if (!moment || (ticks > 0 && at === undefined)) return;
    this.#stepped = ticks > 0 && !this.busy ? moment.ts : undefined;
    const from = this.busy ? (at ?? moment.ts) : moment.ts;
    this.page.go({ at: seconds(from + ticks * moment.tick_s) }, { replace: true });
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open], :popover-open")) return;
    if (event.target.closest?.("input:not([type=range]), textarea, select")) return;
    if (event.key.length === 1 && !letters()) return;
    const action = {
      "/": () => document.querySelector("#now-filter")?.focus(),
      j: () => this.#move(1),
      k: () => this.#move(-1),
      m: () => this.page.cluster.writes !== false && openMark(),
      n: () => this.page.go({ at: undefined, compare: undefined }),
      "[": () => this.step(-1),
      "]": () => this.step(1),
      "?": () => openKeys(),
      Enter: () => event.target.matches?.("[data-row]") && openRow(this, event.target.dataset.row),
    }[event.key];
    if (!action) return;
    if (event.key === "Enter" && !event.target.matches?.("[data-row]")) return;
    event.preventDefault();
    action();
  }

  #move(by) {
    const rows = shownRows(this);
    const index = rows.findIndex((each) => each.row === this.chosen);
    const next = rows[Math.min(Math.max(index + by, 0), rows.length - 1)];
    if (!next) return;
    this.choose(next.row, { replace: true });
    focusRow(next.row);
  }

  render() {
    if (!this.page.cluster.hosts.length) return nothingRecorded();
    return html`<div class="now">
      ${times(this)} ${findings(this)}
      ${this.moment
        ? html`<div class="now-panes" aria-busy=${this.busy}>
            ${this.comparison ? comparedRanking(this) : ranking(this)} ${this.comparison ? comparedFeatures(this) : features(this)}
            ${series(this)}
          </div>`
        : ""}
      ${dialogs(this)}
      <p class="unseen" role="status">${this.announced}</p>
    </div>`;
  }
}
