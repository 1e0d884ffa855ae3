/** Applications: configuration, tracking, analysis and diagnosis of their models (S2, section 6). */

import { get, post, Refusal } from "../api.js";
import { printable } from "../format.js";
import { html, nothing } from "../packages/lit-html/lit-html.js";
import { address } from "../state.js";
import { time } from "../time.js";
import * as analysis from "./applications/analysis.js";
import * as configuration from "./applications/configuration.js";
import * as diagnosis from "./applications/diagnosis.js";
import * as tracking from "./applications/tracking.js";
import { share, steps } from "./applications/shared.js";

const TABS = { configuration, tracking, analysis, diagnosis };
const TITLES = { configuration: "Configuration", tracking: "Tracking", analysis: "Analysis", diagnosis: "Diagnosis" };

/** The interval between requests for the list of applications, which reads all their models. */
const LIST_MS = 10_000;

/** The share of a measuring interval after which new data are requested. */
const RENEWED = 0.4;

const NARROW = window.matchMedia("(max-width: 60rem)");

const DONE = { pin: "Pinned", ban: "Banned", free: "Freed" };

export default class View {
  topics = ["applications", "models", "anomalies"];

  /** The answers for the list and the tab, and the error of the tab. */
  list;
  data = {};
  problem;

  #shown = "";
  #listed = -Infinity;
  #read = -Infinity;
  #later;
  #searching;

  constructor(page) {
    this.page = page;
  }

  leave() {
    clearTimeout(this.#later);
    this.#searching?.abort();
  }

  shows() {
    return this.list !== undefined;
  }

  /** The selected tab; by default tracking, or configuration if there is no model. */
  get tab() {
    if (Object.hasOwn(TABS, this.page.params.tab ?? "")) return this.page.params.tab;
    const found = this.list.applications.find((each) => each.application === this.application);
    return found && !found.models.length ? "configuration" : "tracking";
  }

  /** The selected application; by default a slow one, then one with models, then the first. */
  get application() {
    const { applications } = this.list;
    const first = applications.find((each) => each.incidents.length) ?? applications.find((each) => each.models.length) ?? applications[0];
    return this.page.params.application || first?.application;
  }

  /** The address of this view with other parameters. */
  link(params) {
    return address(this.page.path, { ...this.page.params, application: this.application, ...params });
  }

  async load(signal, news = new Set()) {
    if (!this.list || performance.now() - this.#listed > LIST_MS || news.has("anomalies")) {
      this.list = await get("/applications", {}, signal);
      this.#listed = performance.now();
    }
    const { tab, application } = this;
    if (!application) return;
    const before = this.data.chosen;
    const shown = JSON.stringify({ ...this.page.params, tab, application });
    const every = (this.data.interval_s ?? 0) * 1000 * RENEWED;
    clearTimeout(this.#later);
    const rest = this.#read + every - performance.now();
    if (shown === this.#shown && news.size && !news.has("models") && rest > 0) {
      this.#later = setTimeout(() => this.page.reload(), rest);
      return;
    }
    try {
      const data = await TABS[tab].load(this, signal);
      if (signal.aborted) return;
      this.data = { tab, application, ...data };
      this.problem = undefined;
      this.#shown = shown;
      this.#read = performance.now();
      if (before && data.chosen !== before && NARROW.matches) requestAnimationFrame(reveal);
    } catch (error) {
      if (!(error instanceof Refusal) || (error.status !== 404 && error.status !== 400)) throw error;
      this.data = {};
      this.problem = error;
      this.#shown = "";
    }
  }

  /** A signal for a new search; aborts the previous one. */
  searching() {
    this.#searching?.abort();
    this.#searching = new AbortController();
    return this.#searching.signal;
  }

  /** Pin, ban or free a metric, and show the result. */
  async wish(metric, wish) {
    try {
      const made = await post("/applications/wishes", { application: this.application, metric, wish });
      this.page.notify(`${DONE[wish]}: ${printable(made.metric.metric)}. In effect from the next interval.`);
      await this.page.reload();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.page.notify(error.text, "error");
    }
  }

  render() {
    if (!this.list) return html`<h1>Applications</h1>`;
    if (!this.list.applications.length) return this.#empty();
    const { application, tab } = this;
    const there = this.data.tab === tab && this.data.application === application;
    return html`
      <h1>${printable(application)}</h1>
      <div class="applications">
        ${this.#choice()}
        <div class="applications-shown">
          <nav class="applications-tabs" aria-label="About ${printable(application)}">
            ${Object.keys(TABS).map(
              (each) =>
                html`<a href=${this.link({ tab: each, metric: undefined, model: undefined, performance: undefined })} aria-current=${each === tab ? "page" : nothing}
                  >${TITLES[each]}</a
                >`,
            )}
          </nav>
          ${there ? TABS[tab].render(this, this.data) : this.problem ? this.#nothing() : html`<p class="muted">Loading…</p>`}
        </div>
      </div>
    `;
  }

  #nothing() {
    const { message, expected } = this.problem;
    return html`<section class="card">
      <h2>${message}</h2>
      ${expected ? html`<p>Expected: ${expected}.</p>` : nothing}
      ${this.tab === "configuration" ? nothing : html`<p><a href=${this.link({ tab: "configuration" })}>Show its configuration</a></p>`}
    </section>`;
  }

  #empty() {
    return html`<section class="empty">
      <h1>No applications yet</h1>
      <p>
        laggard models an application's response times from the counters of its hosts. The model shows which resource of which host explains
        them.
      </p>
      <p>For an application named <code>shop</code>:</p>
      ${steps(this.list.steps)}
    </section>`;
  }

  #choice() {
    const { applications, left_out } = this.list;
    const chosen = this.application;
    return html`<nav class="applications-choice" aria-label="Applications">
      <ul>
        ${applications.map(
          (each) => html`<li>
            <a href=${address(this.page.path, { host: this.page.params.host, application: each.application, tab: this.page.params.tab })} aria-current=${each.application === chosen ? "true" : nothing}>
              <strong>${printable(each.application)}</strong> ${standing(each)}
            </a>
          </li>`,
        )}
      </ul>
      ${left_out ? html`<p class="muted">and ${left_out} more. To open one, set <code>?application=NAME</code> in the address.</p>` : nothing}
    </nav>`;
  }
}

/** Scroll to the selected metric on a narrow page, where it is below the list. */
function reveal() {
  document.querySelector(".applications-one")?.scrollIntoView();
}

/** The state of an application in a few words. */
function standing({ models, incidents }) {
  const slow = incidents[0];
  const first = models[0];
  return html`
    ${slow ? html`<span class="badge culprit">slow since ${time(slow.from, true)}</span>` : nothing}
    <span class="muted">
      ${first ? html`model of ${time(first.ts)}, R² ${share(first.r2)}` : "no model yet"}
    </span>
  `;
}
