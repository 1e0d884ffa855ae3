/** Applications: what their models are built from, what they say, why, and where it is (S2, section 6). */

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

/** Which applications there are is read again after so long; that reads the models of all of them. */
const LIST_MS = 10_000;

/** Without a new interval there is nothing new: so much of one passes before it is looked again. */
const RENEWED = 0.4;

const NARROW = window.matchMedia("(max-width: 60rem)");

const DONE = { pin: "Pinned", ban: "Banned", free: "Freed" };

export default class View {
  topics = ["applications", "models", "anomalies"];

  /** What was read of /applications, and of the tab that is shown; why there is nothing in it. */
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

  /** The chosen tab: where none was chosen the performance, or what is lacking to a model of it. */
  get tab() {
    if (Object.hasOwn(TABS, this.page.params.tab ?? "")) return this.page.params.tab;
    const found = this.list.applications.find((each) => each.application === this.application);
    return found && !found.models.length ? "configuration" : "tracking";
  }

  /** The chosen application: where none was chosen a slow one, one with models, or the first. */
  get application() {
    const { applications } = this.list;
    const first = applications.find((each) => each.incidents.length) ?? applications.find((each) => each.models.length) ?? applications[0];
    return this.page.params.application || first?.application;
  }

  /** The address of the same view with other parameters. */
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

  /** A signal for one more search: the one before is over. */
  searching() {
    this.#searching?.abort();
    this.#searching = new AbortController();
    return this.#searching.signal;
  }

  /** Make a wish for the models, say so, and show it. */
  async wish(metric, wish) {
    try {
      const made = await post("/applications/wishes", { application: this.application, metric, wish });
      this.page.notify(`${DONE[wish]}: ${printable(made.metric.metric)}. This holds from the next interval on.`);
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
          ${there ? TABS[tab].render(this, this.data) : this.problem ? this.#nothing() : html`<p class="muted">Reading…</p>`}
        </div>
      </div>
    `;
  }

  #nothing() {
    const { message, expected } = this.problem;
    return html`<section class="card">
      <h2>${message}</h2>
      ${expected ? html`<p>Expected: ${expected}.</p>` : nothing}
      ${this.tab === "configuration" ? nothing : html`<p><a href=${this.link({ tab: "configuration" })}>What it is built from, and what it lacks</a></p>`}
    </section>`;
  }

  #empty() {
    return html`<section class="empty">
      <h1>No application is measured yet</h1>
      <p>
        Response times of an application, and the counters of the hosts that serve it, make a model: it tells which resource of which host the
        response times follow.
      </p>
      <p>Of an application that is called <code>shop</code>:</p>
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
      ${left_out ? html`<p class="muted">and ${left_out} more: their names go into the address, <code>?application=NAME</code></p>` : nothing}
    </nav>`;
  }
}

/** Show what was chosen where it is not beside the list that it was chosen from. */
function reveal() {
  document.querySelector(".applications-one")?.scrollIntoView();
}

/** How an application is, in a few words. */
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
