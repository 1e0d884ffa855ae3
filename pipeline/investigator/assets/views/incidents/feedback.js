/** Feedback on an incident: not an anomaly, or expected until a time. It can be withdrawn. */

import { get, post, Refusal } from "../../api.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { local, parsed, time } from "../../time.js";

/** The API's limit for a note, in characters. */
const LONGEST_NOTE = 4096;

/** The default end of an expected incident from now, in seconds. */
const AHEAD_S = 2 * 3600;

export class Feedback {
  #id;
  #given = [];

  constructor(page) {
    this.page = page;
  }

  async load({ id, key }, signal) {
    const { feedback } = await get("/feedback", { incident: id, key }, signal);
    // Keep the answers for feedback that no worker has processed yet.
    const taken = new Set(feedback.map((each) => each.id));
    const waiting = this.#id === id ? this.#given.filter((each) => !taken.has(each.id)) : [];
    this.#id = id;
    this.#given = [...waiting, ...feedback];
  }

  render(incident) {
    const writes = this.page.cluster.writes !== false && incident.live;
    if (!writes && !this.#given.length) return nothing;
    return html`<section class="card">
      <h2>Feedback</h2>
      ${this.#given.map(
        (each) => html`<p>
          ${sentence(each.sentence)}
          <span class="muted">${each.holds ? html`(until ${time(each.until)})` : "(no longer in effect)"}</span>
          ${writes && each.holds
            ? html`<button type="button" @click=${() => this.#send({ says: "withdrawn", id: each.id, incident: incident.id }, "Withdrawn.")}>Withdraw</button>`
            : nothing}
        </p>`,
      )}
      ${writes ? this.#form(incident) : nothing}
    </section>`;
  }

  #form(incident) {
    return html`<form class="incidents-actions" @submit=${(event) => this.#submit(event, incident)}>
      <label>Reason <input name="note" size="30" maxlength=${LONGEST_NOTE} placeholder="optional" /></label>
      <button value="usual" title="Closes the incident, and suppresses reports up to 1.5 times as large">Not an anomaly</button>
      <label>until <input name="until" type="datetime-local" value=${local(Date.now() / 1000 + AHEAD_S).slice(0, 16)} /></label>
      <button value="expected" title="Closes the incident, and suppresses reports before this time">Expected until then</button>
    </form>`;
  }

  #submit(event, incident) {
    event.preventDefault();
    const { note, until } = event.target.elements;
    const says = event.submitter?.value ?? "usual";
    const when = says === "expected" ? { until: parsed(until.value) ?? 0 } : {};
    const body = { says, incident: incident.id, note: note.value.trim(), ...when };
    note.value = "";
    return this.#send(body, "Sent. It takes effect when the worker has processed it.");
  }

  async #send(body, done) {
    try {
      const answer = await post("/feedback", body);
      const others = this.#given.filter((each) => each.id !== answer.id);
      this.#given = answer.says === "withdrawn" ? this.#given.map((each) => (each.id === answer.id ? { ...each, holds: false } : each)) : [answer, ...others];
      this.page.notify(done);
      this.page.update();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.page.notify(error.text, "error");
    }
  }
}
