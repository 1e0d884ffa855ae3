/** A moment on the page: in the viewer's zone, with UTC when it is pointed at or read out. */

import { html } from "./packages/lit-html/lit-html.js";
import { clock, moment, utc } from "./format.js";

/** `<time>` of a moment in seconds since the Unix epoch; `short` for the time of day alone. */
export function time(ts, short = false) {
  if (ts === null || ts === undefined) return "-";
  const told = short ? clock(ts) : moment(ts);
  return html`<time datetime=${new Date(ts * 1000).toISOString()} title=${utc(ts)}>${told}</time>`;
}
