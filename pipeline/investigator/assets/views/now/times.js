/** The controls of time: the moment, the timeline of the host with its slider, the range, and the comparison. */

import { html, noChange, nothing, svg } from "../../packages/lit-html/lit-html.js";
import { clock, moment as dated, utc } from "../../format.js";
import { seconds } from "../../state.js";
import { edited, local, parsed, time } from "../../time.js";
import { openKeys, openMark } from "./dialogs.js";
import { sentence } from "../../sentence.js";
import { chosenRange, RANGES, shownRange, DEFAULT_RANGE } from "./series.js";

/** The size of the timeline in its own coordinates. */
const WIDE = 1000;
const HIGH = 100;

const LABELS = 5;

/** The longest list of marks and incidents. */
const MOST_LISTED = 50;

/** The offered distances of a comparison, in seconds. */
const BEFORE = [
  ["a minute before", 60],
  ["an hour before", 3600],
  ["a day before", 86400],
];

/** The range of the timeline: until now, or around an older moment. */
export function timeWindow(view) {
  const range = shownRange(view.page.params.range);
  if (range === undefined) return {};
  const newest = view.timeline?.last_ts ?? view.page.now;
  const { at } = view;
  if (at === undefined || at >= newest - range) return { from: newest - range };
  return { from: at - range / 2, to: at + range / 2 };
}

export function times(view) {
  const { page, moment, at, other } = view;
  const shown = view.busy ? (at ?? moment.ts) : (moment?.ts ?? at);
  const live = at === undefined;
  const silent = moment?.silent_s > 0;
  return html`<div class="now-times">
      <h1>
        ${live ? "Now" : shown === undefined ? "A moment" : time(shown)} <span class="now-on">on ${view.host}</span>
        ${live && moment ? html`<span class="badge now-live ${silent ? "victim" : ""}" title="Updates automatically">${silent ? "no data" : "live"}</span>` : nothing}
      </h1>
      <div class="now-tools">
        <button aria-label="One tick back" title="One tick back  [" ?disabled=${!moment} @click=${() => view.step(-1)}>‹</button>
        <label class="unseen" for="now-at">Moment, in your time zone</label>
        <input id="now-at" type="datetime-local" step="1" .value=${edited("now-at") ? noChange : local(shown)} @change=${(event) => asked(view, event)} />
        <button aria-label="One tick forward" title="One tick forward  ]" ?disabled=${!moment || live} @click=${() => view.step(1)}>›</button>
        <button ?disabled=${live && other === undefined} title="Now, live  n" @click=${() => page.go({ at: undefined, compare: undefined, from: undefined, to: undefined })}>Now</button>
        <label class="unseen" for="now-range">Range</label>
        <select id="now-range" @change=${(event) => page.go({ range: event.target.value === DEFAULT_RANGE ? undefined : event.target.value, from: undefined, to: undefined })}>
          ${Object.entries(RANGES).map(
            ([value, name]) => html`<option value=${value} ?selected=${value === chosenRange(page.params.range)}>${name}</option>`,
          )}
        </select>
        <button popovertarget="now-compare" ?disabled=${!moment}>Compare</button>
        <button popovertarget="now-events" ?disabled=${!view.timeline}>Marks</button>
        <button class="now-help" aria-label="Keys" title="Keys  ?" @click=${openKeys}>?</button>
        ${page.cluster.writes === false || !moment
          ? nothing
          : html`<button class="first now-why" title="Mark this moment  m" @click=${openMark}>Why is it slow?</button>`}
      </div>
      ${moment ? compareMenu(view) : nothing} ${view.timeline ? eventMenu(view) : nothing}
    </div>
    ${view.timeline && !view.problem ? strip(view) : nothing} ${view.comparison ? comparing(view) : nothing}`;
}

function comparing(view) {
  const { comparison, page } = view;
  return html`<div class="now-comparing card">
    <span><span class="now-key now-key-moment">${time(comparison.at)}</span> compared with <span class="now-key now-key-other">${time(comparison.with)}</span></span>
    <span class="now-tools">
      <a class="button" href=${page.href("/", { ...page.params, at: seconds(comparison.with), compare: seconds(comparison.at) })}>Swap</a>
      <button @click=${() => page.go({ compare: undefined, row: undefined, feature: undefined })}>Stop comparing</button>
    </span>
    <p class="muted">At ${time(comparison.with, true)}: ${sentence(comparison.sentences_with[0] ?? "")}</p>
  </div>`;
}

function compareMenu(view) {
  const { moment, page, timeline } = view;
  const first = timeline?.first_ts ?? -Infinity;
  const began = moment.began === null ? [] : [["just before the onset", moment.began - 2 * moment.tick_s]];
  const marked = (timeline?.marks ?? []).filter((mark) => mark.ts < moment.ts - moment.tick_s).slice(0, 3).map((mark) => ["a mark", mark.ts]);
  const choices = [...began, ...BEFORE.map(([words, ago]) => [words, moment.ts - ago]), ...marked].filter(([, ts]) => ts >= first);
  const compared = (ts) => page.href("/", { ...page.params, at: seconds(moment.ts), compare: seconds(ts), row: undefined, feature: undefined });
  return html`<div id="now-compare" class="now-menu card" popover role="group" aria-label="Compare with">
    <h2>Compare ${time(moment.ts, true)} with</h2>
    <ul>
      ${choices.map(([words, ts]) => html`<li><a href=${compared(ts)} @click=${hide}>${words}</a> <span class="muted">${time(ts)}</span></li>`)}
    </ul>
    <form @submit=${(event) => chosen(event, (ts) => page.go({ at: seconds(moment.ts), compare: seconds(ts), row: undefined, feature: undefined }))}>
      <label for="now-with">Another moment</label>
      <input id="now-with" name="ts" type="datetime-local" step="1" required />
      <button>Compare</button>
    </form>
  </div>`;
}

function eventMenu(view) {
  const { timeline, page } = view;
  const events = [
    ...marksOf(view).map((mark) => ({ ts: mark.ts, what: "Mark", text: mark.note, href: shows(view, mark.ts) })),
    ...timeline.incidents.map((each) => ({ ts: each.from, what: "Incident", text: sentence(each.sentence), href: page.href("/incidents", { id: each.id }) })),
  ].sort((one, two) => two.ts - one.ts);
  return html`<div id="now-events" class="now-menu card" popover role="group" aria-label="Marks and incidents">
    <h2>Marks and incidents</h2>
    ${events.length
      ? html`<ul>
          ${events
            .slice(0, MOST_LISTED)
            .map((each) => html`<li>${time(each.ts)} <a href=${each.href} @click=${hide}>${each.what}</a> <span class="muted now-note">${each.text}</span></li>`)}
        </ul>`
      : html`<p class="muted">None in this range.</p>`}
  </div>`;
}

/** The marks of the timeline, and those near the moment: a new mark may be newer than the newest frame. */
function marksOf({ timeline, moment }) {
  const near = (moment?.marks ?? []).filter((mark) => !timeline.marks.some((each) => each.id === mark.id));
  return [...timeline.marks, ...near];
}

function shows(view, ts) {
  return view.page.href("/", { range: view.page.params.range, at: seconds(ts) });
}

/** The timeline: the host's CPU, marks, incidents, and a slider. */
function strip(view) {
  const { timeline, moment, at, comparison } = view;
  const begin = Math.max(timeline.from, Math.min(timeline.first_ts, at ?? Infinity));
  const end = Math.max(Math.min(timeline.to, timeline.last_ts), at === undefined ? (moment?.ts ?? 0) : at, begin + tick(view));
  const x = (ts) => ((Math.min(Math.max(ts, begin), end) - begin) / (end - begin)) * WIDE;
  const shown = (view.busy ? at : moment?.ts) ?? at ?? end;
  const marks = marksOf(view);
  const labels = Array.from({ length: LABELS }, (_, index) => begin + ((end - begin) * index) / (LABELS - 1));
  return html`<div class="now-strip" aria-busy=${!timeline.complete}>
    <div class="now-track">
      <svg viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" role="img" aria-label="CPU of ${view.host} from ${dated(begin)} to ${dated(end)}, ${marks.length} marks, ${timeline.incidents.length} incidents">
        ${timeline.incidents.map((each) => svg`<rect class="now-incident" x=${x(each.from)} width=${Math.max(x(each.to ?? end) - x(each.from), 2)} height=${HIGH}></rect>`)}
        <path class="now-most" d=${area(timeline, timeline.high, x)}></path>
        <path class="now-mean" d=${area(timeline, timeline.values, x)}></path>
        ${marks.map((mark) => svg`<line class="now-marked" x1=${x(mark.ts)} x2=${x(mark.ts)} y2=${HIGH}></line>`)}
        ${comparison ? svg`<line class="now-other" x1=${x(comparison.with)} x2=${x(comparison.with)} y2=${HIGH}></line>` : nothing}
      </svg>
      <input
        type="range"
        aria-label="Moment"
        aria-valuetext=${at === undefined ? `now, ${dated(shown)}` : dated(shown)}
        title="Host CPU, marks and incidents. Drag to select a moment."
        min=${begin}
        max=${end}
        step=${tick(view)}
        .value=${document.querySelector("#now-slider:active") ? noChange : String(at === undefined ? end : shown)}
        id="now-slider"
        @input=${(event) => event.target.setAttribute("aria-valuetext", dated(Number(event.target.value)))}
        @change=${(event) => slid(view, event, end)}
      />
    </div>
    <div class="now-scale muted" aria-hidden="true">${labels.map((ts) => html`<span title=${utc(ts)}>${end - begin > 86400 ? dated(ts).slice(5, 16) : clock(ts).slice(0, end - begin > 600 ? 5 : 8)}</span>`)}</div>
  </div>`;
}

/** The interval between frames; a partial timeline does not have it. */
function tick({ moment, timeline }) {
  return moment?.tick_s || timeline.tick_s || 1;
}

/** The outline of a ratio over time; missing values are gaps. */
function area(timeline, values, x) {
  let path = "";
  let last;
  timeline.ts.forEach((ts, index) => {
    const value = values[index];
    if (value === null) {
      if (last !== undefined) path += `L${last} ${HIGH}Z`;
      last = undefined;
      return;
    }
    const at = x(ts).toFixed(1);
    path += last === undefined ? `M${at} ${HIGH}` : "";
    path += `L${at} ${(HIGH * (1 - Math.min(value, 1))).toFixed(1)}`;
    last = at;
  });
  return last === undefined ? path : `${path}L${last} ${HIGH}Z`;
}

function slid(view, event, end) {
  const ts = Number(event.target.value);
  const newest = Math.max(view.timeline.last_ts, view.at === undefined ? end : 0);
  // The slider's last step may end before the newest frame.
  view.page.go({ at: ts > newest - 1.5 * tick(view) ? undefined : seconds(ts) });
}

function asked(view, event) {
  const ts = parsed(event.target.value);
  if (ts !== undefined) view.page.go({ at: ts });
}

function chosen(event, go) {
  event.preventDefault();
  const ts = parsed(event.target.elements.ts.value);
  if (ts === undefined) return;
  hide(event);
  go(ts);
}

function hide(event) {
  event.target.closest("[popover]").hidePopover();
}
