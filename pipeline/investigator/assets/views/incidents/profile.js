/** Profiles of processes during an incident, one at a time: as a sentence, by phases, and as a flame graph. */

import { get, Refusal } from "../../api.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { live } from "../../packages/lit-html/directives/live.js";
import { sentence } from "../../sentence.js";
import { Flames, functionsTable } from "./flames.js";
import { phases } from "./phases.js";

/** The selections in a profile; another profile starts without them. */
const NONE = { phase: undefined, thread: undefined, state: undefined, zoom: undefined, find: undefined };

export class Profile {
  #found;
  #asked = "";
  #asking;
  #flames;

  constructor(page) {
    this.page = page;
    this.#flames = new Flames((index) => this.page.go({ zoom: index < 0 ? undefined : index }, { replace: true }));
  }

  /** Load the selected profile if it is not loaded, or may have new results. */
  async load(chosen, signal, news) {
    if (!chosen) return;
    const { phase, thread, state } = this.page.params;
    const asked = { id: chosen.id, host: chosen.host, at: chosen.end_ts ?? undefined, phase, thread, state };
    const key = JSON.stringify({ ...asked, at: undefined });
    if (key === this.#asked && !news.has("diagnoses")) return;
    const asking = (this.#asking = {});
    try {
      const found = await get("/diagnosis", asked, signal);
      if (asking !== this.#asking) return;
      this.#found = found;
      this.#asked = key;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.page.notify(error.text, "error");
    }
  }

  render(diagnoses, chosen) {
    if (!chosen) return nothing;
    const found = this.#found?.id === chosen.id ? this.#found : undefined;
    return html`<section class="card">
      <h2>Profiles</h2>
      ${diagnoses.length > 1
        ? html`<label class="incidents-choice"
            >Process
            <select .value=${live(chosen.id)} @change=${(event) => this.page.go({ ...NONE, diagnosis: event.target.value })}>
              ${diagnoses.map(
                (each) => html`<option value=${each.id} ?selected=${each.id === chosen.id}>${each.name} (PID ${each.pid})${each.blamed ? ", culprit" : ""}</option>`,
              )}
            </select></label
          >`
        : nothing}
      <p>${sentence(chosen.sentence)}</p>
      ${found ? this.#one(found) : nothing}
    </section>`;
  }

  #one(found) {
    const several = found.phases.length > 1;
    return html`
      ${several
        ? phases(
            found.phases.map((each) => ({ ...each, value: each.cores })),
            "cores_ratio",
            found.name,
          )
        : nothing}
      <h3>Flame graph</h3>
      ${this.#choices(found, several)}
      ${found.flames.samples
        ? html`${this.#flames.render(found.flames, this.#zoom(found), this.page.params.find ?? "", this.#label(found))}
            <p class="muted">
              Each function is above its caller; its width is its share of the samples. Click a function, or press Enter, to zoom in. The
              arrow keys move between functions; Escape shows all.
            </p>
            <details>
              <summary>Functions as a table</summary>
              ${functionsTable(found.flames)}
            </details>`
        : html`<p class="muted">No samples of ${found.state} threads.</p>`}
      <details>
        <summary>As text, like <code>laggard diagnose</code></summary>
        ${elsewhere(found) ? html`<p class="muted">Times are in the time zone of the machine that serves this page: ${zone(found.utc_offset_s)}.</p>` : nothing}
        <pre class="incidents-text">${found.text}</pre>
      </details>
    `;
  }

  #label(found) {
    return `Flame graph of ${found.name}, ${found.state}, ${found.flames.samples} samples`;
  }

  #zoom(found) {
    const index = Number(this.page.params.zoom ?? -1);
    return Number.isInteger(index) && index < found.flames.boxes.length ? index : -1;
  }

  #choices(found, several) {
    const { page } = this;
    const { params } = page;
    const go = (change) => page.go({ zoom: undefined, ...change }, { replace: true });
    return html`<form class="incidents-filters" @submit=${(event) => event.preventDefault()}>
      <label
        >Thread state
        <select .value=${live(found.state)} @change=${(event) => go({ state: event.target.value })}>
          <option value="running" ?selected=${found.state === "running"}>running (${found.running})</option>
          <option value="blocked" ?selected=${found.state === "blocked"}>blocked (${found.blocked})</option>
        </select></label
      >
      ${several
        ? html`<label
            >Phase
            <select .value=${live(params.phase ?? "")} @change=${(event) => go({ phase: event.target.value || undefined })}>
              <option value="" ?selected=${!params.phase}>all</option>
              ${found.phases.map((each) => html`<option value=${each.number} ?selected=${String(each.number) === params.phase}>${each.label}</option>`)}
            </select></label
          >`
        : nothing}
      ${found.threads.length > 1
        ? html`<label
            >Thread
            <select .value=${live(params.thread ?? "")} @change=${(event) => go({ thread: event.target.value || undefined })}>
              <option value="" ?selected=${!params.thread}>all</option>
              ${found.threads.map((each) => html`<option value=${each.tid} ?selected=${String(each.tid) === params.thread}>${each.name || "thread"} (${each.tid})</option>`)}
            </select></label
          >`
        : nothing}
      <label>Search <input type="search" .value=${live(params.find ?? "")} @input=${(event) => page.go({ find: event.target.value || undefined }, { replace: true })} /></label>
    </form>`;
  }
}

/** Whether the server has another time zone than the viewer. */
function elsewhere(found) {
  return found.utc_offset_s !== -60 * new Date((found.phases[0]?.begin_ts ?? Date.now() / 1000) * 1000).getTimezoneOffset();
}

/** A time zone by its offset: `UTC`, `UTC+05:30`. */
function zone(offset_s) {
  const minutes = Math.abs(offset_s) / 60;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  return offset_s ? `UTC${offset_s < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}` : "UTC";
}
