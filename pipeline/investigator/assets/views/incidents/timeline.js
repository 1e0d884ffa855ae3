/** The timeline of an incident: findings and scores of each operator, profiles, and marks. */

import { clock, moment, score } from "../../format.js";
import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";

const LANE = 46;
const BAR = 14;
const AXIS = 26;

/** The least distance between written scores, in percent of the width. */
const APART = 7;

const STEPS = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];

/** An anomaly is reported as ended after five calm minutes. The timeline includes that report; in seconds. */
const ENDS_S = 330;

/** The time from shortly before an incident opened to shortly after it ended, in seconds since the Unix epoch. */
export function whole(incident, now) {
  const until = incident.until_ts ?? now;
  const beside = Math.max(0.15 * (until - incident.opened_ts), ENDS_S);
  return { from: incident.opened_ts - beside, to: Math.min(until + beside, Math.max(now, until)) };
}

/**
 * Draw the timeline.
 *
 * @param {object} account an answer of /incident
 * @param {object[]} diagnoses of /incident/diagnoses
 * @param {{from: number, to: number}} range the visible time
 */
export function timeline(account, diagnoses, { from, to }) {
  const at = (ts) => (100 * (ts - from)) / (to - from);
  const x = (ts) => `${Math.min(Math.max(at(ts), 0), 100)}%`;
  const width = (begin, end) => `${Math.max(Math.min(at(end), 100) - Math.max(at(begin), 0), 0.4)}%`;
  const inside = (begin, end) => end >= from && begin <= to;
  const lanes = [
    ...account.seen.map((each) => ({
      label: each.scope ? `${each.operator} (${each.scope})` : each.operator,
      kind: each.until_ts === null ? "open" : "ended",
      bars: [{ begin: each.opened_ts, end: each.until_ts ?? account.now, title: each.sentence }],
      reports: account.reports.filter((report) => report.anomaly === each.anomaly),
    })),
    ...(diagnoses.length
      ? [
          {
            label: "profiles",
            kind: "diagnosis",
            bars: diagnoses
              .filter((each) => each.begin_ts !== null)
              .map((each) => ({ begin: each.begin_ts, end: each.end_ts, title: each.sentence })),
            reports: [],
          },
        ]
      : []),
  ];
  const height = lanes.length * LANE + AXIS;
  const bottom = height - AXIS;
  return html`<svg class="incidents-timeline" width="100%" height=${height} role="img" aria-label=${described(account, diagnoses)}>
    ${ticks(from, to).map(
      (ts, number) =>
        svg`<g class=${number % 2 ? "incidents-odd" : nothing}>
          <line class="incidents-grid" x1=${x(ts)} x2=${x(ts)} y1="0" y2=${bottom}></line>
          <text class="incidents-axis" x=${x(ts)} y=${height - 8} text-anchor=${anchor(at(ts))}>${label(ts, to - from)}</text></g>`,
    )}
    ${account.marks
      .filter((mark) => inside(mark.ts, mark.ts))
      .map(
        (mark) =>
          svg`<g><title>marked ${moment(mark.ts)}${mark.note ? `: ${mark.note}` : ""}</title>
            <line class="incidents-mark" x1=${x(mark.ts)} x2=${x(mark.ts)} y1="0" y2=${bottom}></line></g>`,
      )}
    ${lanes.map((lane, number) => {
      const top = number * LANE;
      return svg`
        <text x="2" y=${top + 13}>${lane.label}</text>
        ${lane.bars
          .filter((bar) => inside(bar.begin, bar.end))
          .map(
            (bar) =>
              svg`<g><title>${moment(bar.begin)} to ${moment(bar.end)}: ${bar.title}</title>
                <rect class="incidents-bar ${lane.kind}" x=${x(bar.begin)} y=${top + 22} width=${width(bar.begin, bar.end)} height=${BAR} rx="2"></rect></g>`,
          )}
        ${scores(lane.reports.filter((report) => inside(report.ts, report.ts)), at).map(
          ({ report, written }) =>
            svg`<g><title>${moment(report.ts)}, ${report.change}, score ${score(report.score)}: ${report.sentence}</title>
              <circle class="incidents-report ${report.change}" cx=${x(report.ts)} cy=${top + 22 + BAR / 2} r="4"></circle>
              ${written ? svg`<text class="incidents-score" x=${x(report.ts)} y=${top + 18} text-anchor=${anchor(at(report.ts))}>${score(report.score)}</text>` : nothing}</g>`,
        )}
        <line class="incidents-grid" x1="0" x2="100%" y1=${top + LANE} y2=${top + LANE}></line>`;
    })}
  </svg>`;
}

/** Select the scores with room for text. The name of the lane is at the left. */
function scores(reports, at) {
  let last = 25;
  return reports.map((report) => {
    const place = at(report.ts);
    const written = report.change !== "ended" && place - last >= APART;
    if (written) last = place;
    return { report, written };
  });
}

function anchor(place) {
  return place < 6 ? "start" : place > 94 ? "end" : "middle";
}

function ticks(from, to) {
  const step = STEPS.find((each) => (to - from) / each <= 8) ?? STEPS.at(-1);
  // Whole steps of the viewer's clock.
  const shift = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - shift) / step) * step + shift;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, number) => first + number * step);
}

function label(ts, span) {
  const time = clock(ts);
  if (span > 2 * 86400) return `${moment(ts).slice(5, 10)} ${time.slice(0, 5)}`;
  return span > 600 ? time.slice(0, 5) : time;
}

function described({ incident, seen, reports, marks }, diagnoses) {
  const until = incident.open ? "still open" : `end ${moment(incident.until_ts)}`;
  return (
    `Onset ${moment(incident.opened_ts)}, ${until}. ` +
    `${seen.length} operators detected it, with ${reports.length} reports; ${marks.length} marks; ` +
    `${diagnoses.length} profiled processes. The table below lists the reports.`
  );
}
