/** A moment on the page: in the viewer's zone, with UTC when it is pointed at or read out. */

import { html } from "./packages/lit-html/lit-html.js";
import { clock, moment, utc } from "./format.js";

/** `<time>` of a moment in seconds since the Unix epoch; `short` for the time of day alone. */
export function time(ts, short = false) {
  if (ts === null || ts === undefined) return "-";
  const text = short ? clock(ts) : moment(ts);
  return html`<time datetime=${new Date(ts * 1000).toISOString()} title=${utc(ts)}>${text}</time>`;
}

/** A moment as `<input type="datetime-local" step="1">` has it, in the viewer's zone; nothing for one that is not there. */
export function local(ts) {
  return ts === undefined ? "" : moment(ts).replace(" ", "T");
}

/** The moment that such an input has, in seconds since the Unix epoch; undefined where it is not whole. */
export function parsed(value) {
  const ts = new Date(value).getTime() / 1000;
  return Number.isFinite(ts) ? ts : undefined;
}

/** Whether a person is at an input, by its id: then what comes in does not change it. */
export function edited(id) {
  return document.activeElement?.id === id;
}
