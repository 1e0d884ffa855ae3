/** What people say of an incident: that it is none, or is expected until a time; what was said can be taken back. */

import { get, post, Refusal } from "../../api.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { sentence } from "../../sentence.js";
import { local, parsed, time } from "../../time.js";

/** Characters of a note, as the API takes it. */
const LONGEST_NOTE = 4096;

/** A time that is offered lies so far ahead, in seconds. */
const AHEAD_S = 2 * 3600;

export class Feedback {
  #id;
  #given = [];

  constructor(page) {
    this.page = page;
  }

  async load({ id, key }, signal) {
    const { feedback } = await get("/feedback", { incident: id, key }, signal);
    // What no worker has taken yet is kept as it was answered.
    const taken = new Set(feedback.map((each) => each.id));
    const waiting = this.#id === id ? this.#given.filter((each) => !taken.has(each.id)) : [];
    this.#id = id;
    this.#given = [...waiting, ...feedback];
  }

  render(incident) {
    const writes = this.page.cluster.writes !== false && incident.live;
    if (!writes && !this.#given.length) return nothing;
    return html`<section class="card">
      <h2>What people say</h2>
      ${this.#given.map(
        (each) => html`<p>
          ${sentence(each.sentence)}
          <span class="muted">${each.holds ? html`(until ${time(each.until)})` : "(it holds no more)"}</span>
          ${writes && each.holds
            ? html`<button type="button" @click=${() => this.#send({ says: "withdrawn", id: each.id, incident: incident.id }, "Taken back.")}>Take back</button>`
            : nothing}
        </p>`,
      )}
      ${writes ? this.#form(incident) : nothing}
    </section>`;
  }

  #form(incident) {
    return html`<form class="incidents-actions" @submit=${(event) => this.#submit(event, incident)}>
      <label>Why <input name="note" size="30" maxlength=${LONGEST_NOTE} placeholder="may be empty" /></label>
      <button value="usual" title="It is closed, and not reported again up to 1.5 times as large">Not an anomaly</button>
      <label>until <input name="until" type="datetime-local" value=${local(Date.now() / 1000 + AHEAD_S).slice(0, 16)} /></label>
      <button value="expected" title="It is closed, and not reported before this time">Expected until then</button>
    </form>`;
  }

  #submit(event, incident) {
    event.preventDefault();
    const { note, until } = event.target.elements;
    const says = event.submitter?.value ?? "usual";
    const when = says === "expected" ? { until: parsed(until.value) ?? 0 } : {};
    const body = { says, incident: incident.id, note: note.value.trim(), ...when };
    note.value = "";
    return this.#send(body, "Said. It holds once the worker has taken it.");
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
