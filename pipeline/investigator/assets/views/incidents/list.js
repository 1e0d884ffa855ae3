/** What was wrong: those that are open first. */

import { get } from "../../api.js";
import { duration } from "../../format.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { live } from "../../packages/lit-html/directives/live.js";
import { sentence } from "../../sentence.js";
import { number, stretch } from "../../state.js";
import { time } from "../../time.js";
import { KINDS, state, whose, worst } from "./words.js";

const RANGES = [
  ["1h", "the last hour", 3600],
  ["24h", "the last 24 hours", 86400],
  ["7d", "the last 7 days", 7 * 86400],
  ["30d", "the last 30 days", 30 * 86400],
];
const USUAL = "24h";

export default class List {
  #found;
  #notices;

  constructor(page) {
    this.page = page;
  }

  async load(signal) {
    const { params } = this.page;
    const chosen = this.#chosen();
    this.#found = await get(
      "/incidents",
      {
        ...(chosen && { [chosen.keyed_by]: chosen.key }),
        open: params.open ? "true" : undefined,
        within: this.#range()[2],
        ...this.#stretch(),
      },
      signal,
    );
    this.#notices = params.notices && (await get("/notices", { host: params.host, open: params.open ? "true" : undefined, within: this.#range()[2], ...this.#stretch() }, signal));
    document.title = "Incidents - laggard";
  }

  shows() {
    return this.#found !== undefined;
  }

  #range() {
    const named = (wanted) => RANGES.find(([name]) => name === wanted);
    return named(this.page.params.range) ?? named(USUAL);
  }

  /** From when to when, where the address says it; a moment is both. */
  #stretch() {
    const at = number(this.page.params, "at");
    const { from = at, to = at } = stretch(this.page.params);
    return { from, to };
  }

  #chosen() {
    const keyed_by = KINDS.find((kind) => this.page.params[kind]);
    return keyed_by && { keyed_by, key: this.page.params[keyed_by] };
  }

  render() {
    const { incidents, left_out, begins_ts } = this.#found;
    const open = incidents.filter((each) => each.open).length;
    return html`
      <h1>Incidents</h1>
      ${this.#filters()}
      <p class="muted" role="status">
        ${incidents.length ? html`${incidents.length + left_out} found, ${open} of those shown open.` : nothing}
      </p>
      ${incidents.length
        ? html`<ul class="incidents-list">
            ${incidents.map((each) => html`<li>${this.#item(each)}</li>`)}
          </ul>`
        : this.#none()}
      ${left_out ? html`<p>${left_out} more are not shown: choose a shorter time.</p>` : nothing}
      ${this.#notices ? this.#suspicious() : nothing}
      ${begins_ts === null
        ? nothing
        : html`<p class="muted">What opened before ${time(begins_ts)} and has not changed since is not among them.</p>`}
    `;
  }

  /** What was not unusual enough for an incident. */
  #suspicious() {
    const { notices, left_out } = this.#notices;
    return html`<section class="incidents-notices" aria-label="Notices">
      <h2>Notices</h2>
      ${notices.length ? nothing : html`<p class="muted">Nothing was suspicious then.</p>`}
      ${notices.map(
        (each) => html`<p>
          <a href=${this.page.href("/", { host: each.host, at: each.from })}>${time(each.from)}</a>
          ${each.host} <span class="muted">${each.to === null ? "open" : `for ${duration(each.to - each.from)}${each.became ? ", became an incident" : ""}`}</span><br />
          ${sentence(each.sentence)}
        </p>`,
      )}
      ${left_out ? html`<p>${left_out} more are not shown: choose a shorter time.</p>` : nothing}
    </section>`;
  }

  #item(incident) {
    return html`<article class="card incidents-item ${incident.open ? "incidents-open" : ""}">
      <h2>
        ${state(incident)}
        <a href=${this.page.href("/incidents", { id: incident.id })}
          >${whose(incident)}${incident.blamed ? html`: ${incident.blamed.name}` : nothing}</a
        >
      </h2>
      <p class="incidents-facts muted">
        <span>score <strong>${worst(incident.score)}</strong></span>
        <span>began ${time(incident.opened_ts)}</span>
        <span>${incident.open ? "for" : "lasted"} ${duration(incident.lasted_s)}</span>
        <span>seen by ${incident.operators.join(", ")}</span>
        ${incident.young ? html`<span>by models that were young</span>` : nothing}
      </p>
      <p>${sentence(incident.sentence)}</p>
      ${incident.silence ? html`<p class="incidents-warning">${incident.silence}</p>` : nothing}
    </article>`;
  }

  #filters() {
    const { page } = this;
    const { params, cluster } = page;
    const chosen = this.#chosen();
    const keys = new Map([...cluster.hosts.map((key) => ({ keyed_by: "host", key })), ...this.#found.keys, ...(chosen ? [chosen] : [])].map((each) => [JSON.stringify([each.keyed_by, each.key]), each]));
    const value = chosen ? JSON.stringify([chosen.keyed_by, chosen.key]) : "";
    const { from, to } = this.#stretch();
    const [range] = this.#range();
    return html`<form class="incidents-filters" @submit=${(event) => event.preventDefault()}>
      <label
        >Of
        <select .value=${live(value)} @change=${(event) => this.#choose(keys.get(event.target.value))}>
          <option value="" ?selected=${value === ""}>everything</option>
          ${[...keys].map(([name, each]) => html`<option value=${name} ?selected=${name === value}>${whose(each)}</option>`)}
        </select></label
      >
      ${from === undefined && to === undefined
        ? html`<label
            >Open within
            <select .value=${live(range)} @change=${(event) => page.go({ range: event.target.value })}>
              ${RANGES.map(([name, label]) => html`<option value=${name} ?selected=${name === range}>${label}</option>`)}
            </select></label
          >`
        : html`<span
            >Open ${from === undefined ? nothing : html`from ${time(from)}`} ${to === undefined ? nothing : html`to ${time(to)}`}
            <button type="button" @click=${() => page.go({ from: undefined, to: undefined, at: undefined })}>Any time</button></span
          >`}
      <label class="incidents-check"
        ><input type="checkbox" .checked=${live(Boolean(params.open))} @change=${(event) => page.go({ open: event.target.checked ? 1 : undefined })} /> only
        those that are open</label
      >
      <label class="incidents-check" title="What was suspicious, but not unusual enough for an incident"
        ><input type="checkbox" .checked=${live(Boolean(params.notices))} @change=${(event) => page.go({ notices: event.target.checked ? 1 : undefined })} /> notices
        of hosts, too</label
      >
    </form>`;
  }

  #choose(each) {
    const none = Object.fromEntries(KINDS.map((kind) => [kind, undefined]));
    this.page.go({ ...none, ...(each && { [each.keyed_by]: each.key }) });
  }

  #none() {
    const { cluster, params } = this.page;
    if (!cluster.hosts.length) {
      return html`<section class="empty">
        <h2>Nothing is recorded yet</h2>
        <p>Start laggard on this machine: <code>laggard up</code>. After ten minutes it knows what is usual here.</p>
      </section>`;
    }
    const narrowed = this.#chosen() || params.open || params.from || params.to || params.range === "1h";
    return html`<section class="empty">
      <h2>No incident ${params.open ? "is open" : "was open then"}</h2>
      <p>
        An incident opens when something is further from its usual than the budget of false alarms allows.
        <a href=${this.page.href("/")}>Look at what stands out now</a>${narrowed
          ? html`, or <a href="/incidents?range=7d">at all incidents of the last 7 days</a>`
          : nothing}.
      </p>
      <p>
        If it is slow and nothing is told, mark it: by <em>Why is it slow?</em> there, or <code>laggard mark "what is slow"</code>. It is judged all
        the same.
      </p>
    </section>`;
  }
}
