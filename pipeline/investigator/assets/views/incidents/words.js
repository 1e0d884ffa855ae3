/** Texts that the list and the page of an incident share. */

import { score } from "../../format.js";
import { html } from "../../packages/lit-html/lit-html.js";

/** The kinds of subjects of incidents, as named in parameters; the first one present counts. */
export const KINDS = ["application", "pool", "service", "host"];

/** The subject: a host by name, others with their kind. */
export function whose({ keyed_by, key }) {
  return keyed_by === "host" ? key : `${keyed_by} ${key}`;
}

/** A badge: open or closed. */
export function state(incident) {
  return html`<span class="badge ${incident.open ? "culprit" : ""}">${incident.open ? "open" : "closed"}</span>`;
}

/** A score; null is infinite, for which JSON has no number. */
export function worst(value) {
  return value === null ? "infinite" : score(value);
}
