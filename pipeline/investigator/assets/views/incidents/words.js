/** What the list and the page of an incident say alike. */

import { score } from "../../format.js";
import { html } from "../../packages/lit-html/lit-html.js";

/** Whom incidents are about, as parameters name them: the first that is there. */
export const KINDS = ["application", "pool", "service", "host"];

/** Whom it is about: a host by its name, anything else by what it is too. */
export function whose({ keyed_by, key }) {
  return keyed_by === "host" ? key : `${keyed_by} ${key}`;
}

/** Whether it is open, as a badge. */
export function state(incident) {
  return html`<span class="badge ${incident.open ? "culprit" : ""}">${incident.open ? "open" : "closed"}</span>`;
}

/** A score: JSON has no number for one beyond all. */
export function worst(value) {
  return value === null ? "infinite" : score(value);
}
