/** Moments in the viewer's time zone, with UTC in the tooltip. */

import { html } from "./packages/lit-html/lit-html.js";
import { clock, moment, utc } from "./format.js";

/** The `<time>` element of a moment in seconds since the Unix epoch; `short` omits the date. */
export function time(ts, short = false) {
  if (ts === null || ts === undefined) return "-";
  const text = short ? clock(ts) : moment(ts);
  return html`<time datetime=${new Date(ts * 1000).toISOString()} title=${utc(ts)}>${text}</time>`;
}

/** A moment as the value of `<input type="datetime-local" step="1">`, in the viewer's time zone; empty for undefined. */
export function local(ts) {
  return ts === undefined ? "" : moment(ts).replace(" ", "T");
}

/** The moment of such an input, in seconds since the Unix epoch; undefined for an incomplete one. */
export function parsed(value) {
  const ts = new Date(value).getTime() / 1000;
  return Number.isFinite(ts) ? ts : undefined;
}

/** Whether the input with this id has the focus; live updates must not change it then. */
export function edited(id) {
  return document.activeElement?.id === id;
}
