/** The list of incidents, open ones first. */

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
const DEFAULT = "24h";

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
    return named(this.page.params.range) ?? named(DEFAULT);
  }

  /** The time range of the address, if it has one; a moment is both ends. */
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
        ${incidents.length ? html`${incidents.length + left_out} found; ${open} of the ${incidents.length} shown are open.` : nothing}
      </p>
      ${incidents.length
        ? html`<ul class="incidents-list">
            ${incidents.map((each) => html`<li>${this.#item(each)}</li>`)}
          </ul>`
        : this.#none()}
      ${left_out ? html`<p>${left_out} more are not shown. Choose a shorter time range.</p>` : nothing}
      ${this.#notices ? this.#suspicious() : nothing}
      ${begins_ts === null
        ? nothing
        : html`<p class="muted">Incidents from before ${time(begins_ts)} without later changes are not listed.</p>`}
    `;
  }

  /** Notices: findings below the alert level. */
  #suspicious() {
    const { notices, left_out } = this.#notices;
    return html`<section class="incidents-notices" aria-label="Notices">
      <h2>Notices</h2>
      ${notices.length ? nothing : html`<p class="muted">No notices in this time.</p>`}
      ${notices.map(
        (each) => html`<p>
          <a href=${this.page.href("/", { host: each.host, at: each.from })}>${time(each.from)}</a>
          ${each.host} <span class="muted">${each.to === null ? "open" : `for ${duration(each.to - each.from)}${each.became ? ", became an incident" : ""}`}</span><br />
          ${sentence(each.sentence)}
        </p>`,
      )}
      ${left_out ? html`<p>${left_out} more are not shown. Choose a shorter time range.</p>` : nothing}
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
        <span>onset ${time(incident.opened_ts)}</span>
        <span>${incident.open ? "open for" : "lasted"} ${duration(incident.lasted_s)}</span>
        <span>detected by ${incident.operators.join(", ")}</span>
        ${incident.young ? html`<span>during warm-up</span>` : nothing}
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
        >Subject
        <select .value=${live(value)} @change=${(event) => this.#choose(keys.get(event.target.value))}>
          <option value="" ?selected=${value === ""}>all</option>
          ${[...keys].map(([name, each]) => html`<option value=${name} ?selected=${name === value}>${whose(each)}</option>`)}
        </select></label
      >
      ${from === undefined && to === undefined
        ? html`<label
            >Open in
            <select .value=${live(range)} @change=${(event) => page.go({ range: event.target.value })}>
              ${RANGES.map(([name, label]) => html`<option value=${name} ?selected=${name === range}>${label}</option>`)}
            </select></label
          >`
        : html`<span
            >Open ${from === undefined ? nothing : html`from ${time(from)}`} ${to === undefined ? nothing : html`to ${time(to)}`}
            <button type="button" @click=${() => page.go({ from: undefined, to: undefined, at: undefined })}>Any time</button></span
          >`}
      <label class="incidents-check"
        ><input type="checkbox" .checked=${live(Boolean(params.open))} @change=${(event) => page.go({ open: event.target.checked ? 1 : undefined })} /> open
        only</label
      >
      <label class="incidents-check" title="Findings below the alert level"
        ><input type="checkbox" .checked=${live(Boolean(params.notices))} @change=${(event) => page.go({ notices: event.target.checked ? 1 : undefined })} /> include
        notices of hosts</label
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
        <h2>No data yet</h2>
        <p>Start laggard on this machine: <code>laggard up</code>. The baselines take ten minutes to learn.</p>
      </section>`;
    }
    const narrowed = this.#chosen() || params.open || params.from || params.to || params.range === "1h";
    return html`<section class="empty">
      <h2>${params.open ? "No open incidents" : "No incidents in this time"}</h2>
      <p>
        An incident opens when a deviation exceeds the alert level, which follows from the budget of false alarms.
        <a href=${this.page.href("/")}>Show the processes now</a>${narrowed
          ? html`, or <a href="/incidents?range=7d">all incidents of the last 7 days</a>`
          : nothing}.
      </p>
      <p>
        If the machine is slow without an incident, mark the moment with <em>Why is it slow?</em> there, or with
        <code>laggard mark "note"</code>. laggard ranks the processes at each mark.
      </p>
    </section>`;
  }
}
