/** The critical path of a request: a lane for each thread, its states in order, and arrows between lanes. */

import { printable, readable } from "../../format.js";
import { html, nothing, render, svg } from "../../packages/lit-html/lit-html.js";
import { evenTicks } from "./ticks.js";

const LANE = 48;
const NAME = 16;
const BAR = 22;
const LEAST = 0.75;
const AXIS = 26;
const CHARACTER = 6.8;
const STEP = 1.6;
const MOST_ZOOM = 1e5;

/**
 * Draws the path.
 *
 * Properties:
 * - `path`: {lanes: string[], pieces: [{lane, begin_s, end_s, state, detail}], leads: [{at_s, source, target}],
 *   states: [{state, label, color}], path_duration_s, description}
 *
 * Zooms and moves by its buttons, by + - 0 and arrow keys, by dragging, and by the wheel while it has the focus.
 */
class Lanes extends HTMLElement {
  #path;
  #window;
  #grabbed;
  #resized = new ResizeObserver(() => this.#draw());

  set path(path) {
    if (this.#path?.request !== path.request) this.#window = undefined;
    this.#path = path;
    if (this.isConnected) this.#draw();
  }

  /** The visible range of the path, in seconds. */
  get window() {
    return this.#window ?? { begin: 0, end: this.#path.path_duration_s || 1 };
  }

  connectedCallback() {
    this.#resized.observe(this);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
  }

  #zoom(times, share = 0.5) {
    const { begin, end } = this.window;
    const whole = this.#path.path_duration_s || 1;
    const span = Math.min((end - begin) / times, whole);
    if (span < whole / MOST_ZOOM) return;
    this.#show(begin + share * (end - begin - span), span);
  }

  #show(begin, span) {
    const whole = this.#path.path_duration_s || 1;
    const from = Math.min(Math.max(begin, 0), whole - span);
    this.#window = span >= whole ? undefined : { begin: from, end: from + span };
    this.#draw();
  }

  #move(share) {
    const { begin, end } = this.window;
    this.#show(begin + share * (end - begin), end - begin);
  }

  #draw() {
    if (this.#path) render(this.#template(), this);
  }

  #template() {
    const zoomed = this.#window !== undefined;
    return html`<p class="requests-tools">
        <button type="button" @click=${() => this.#zoom(STEP)} aria-label="Zoom in">+</button>
        <button type="button" @click=${() => this.#zoom(1 / STEP)} aria-label="Zoom out" ?disabled=${!zoomed}>−</button>
        <button type="button" @click=${() => this.#move(-0.25)} aria-label="Earlier" ?disabled=${!zoomed}>←</button>
        <button type="button" @click=${() => this.#move(0.25)} aria-label="Later" ?disabled=${!zoomed}>→</button>
        <button type="button" @click=${() => this.#show(0, Infinity)} ?disabled=${!zoomed}>Show all</button>
      </p>
      ${this.#picture()}`;
  }

  #picture() {
    const { lanes, pieces, leads, states, description } = this.#path;
    const width = Math.max(this.clientWidth, 240);
    const height = LANE * lanes.length + AXIS;
    const { begin, end } = this.window;
    const x = (at) => ((at - begin) / (end - begin)) * width;
    const colors = Object.fromEntries(states.map((each) => [each.state, each]));
    const shown = leads.filter((lead) => lead.at_s >= begin && lead.at_s <= end);
    const seen = pieces.filter((piece) => piece.end_s >= begin && piece.begin_s <= end);
    return html`<svg
      class="requests-lanes"
      width=${width}
      height=${height}
      viewBox="0 0 ${width} ${height}"
      role="img"
      aria-label=${description}
      tabindex="0"
      @keydown=${(event) => this.#typed(event)}
      @wheel=${{ handleEvent: (event) => this.#wheeled(event), passive: false }}
      @pointerdown=${(event) => this.#pressed(event)}
      @pointermove=${(event) => this.#dragged(event)}
      @pointerup=${() => (this.#grabbed = undefined)}
      @pointercancel=${() => (this.#grabbed = undefined)}
    >
      ${evenTicks(begin * 1e3, end * 1e3, Math.max(Math.floor(width / 90), 2)).map((tick) => this.#tick(tick, x(tick / 1e3), height))}
      ${lanes.map((_, lane) => svg`<path class="requests-lane" d="M0 ${middle(lane)}H${width}" />`)}
      ${shown.map((lead) => svg`<path class="requests-lead" d="M${x(lead.at_s).toFixed(1)} ${middle(lead.source)}V${edge(lead)}" />`)}
      ${seen.map((piece) => this.#piece(piece, colors[piece.state], x, width))}
      ${lanes.map(
        (name, lane) => svg`<text class=${lane ? "requests-thread" : "requests-thread requests-own"} x="2" y=${LANE * lane + 11}>${cut(name, width)}<title>${name}</title></text>`,
      )}
      ${shown.map((lead) => svg`<path class="requests-head" d="M${x(lead.at_s).toFixed(1)} ${edge(lead)}l-4 ${lead.target > lead.source ? -6 : 6}h8Z" />`)}
    </svg>`;
  }

  #tick(ms, x, height) {
    const bottom = height - AXIS + 4;
    const anchor = x < 12 ? "start" : x > this.clientWidth - 24 ? "end" : "middle";
    return svg`<path class="requests-tick" d="M${x.toFixed(1)} 0V${bottom}" />
      <text class="requests-note" x=${x.toFixed(1)} y=${bottom + 14} text-anchor=${anchor}>${readable("at_s", ms / 1e3) === "0 s" ? "0" : readable("at_s", ms / 1e3)}</text>`;
  }

  #piece(piece, state, x, width) {
    // Only the visible part: browsers do not draw a million pixels, and the text has to be visible.
    const [left, right] = [Math.max(x(piece.begin_s), -2), Math.min(x(piece.end_s), width + 2)];
    const wide = Math.max(right - left, LEAST);
    const took = readable("duration_s", piece.end_s - piece.begin_s);
    const detail = printable(piece.detail);
    const texts = [`${state.label}${detail ? `, ${detail}` : ""} ${took}`, `${state.label} ${took}`, state.label, piece.state];
    const text = texts.find((each) => CHARACTER * each.length + 6 <= wide);
    const y = middle(piece.lane) - BAR / 2;
    return svg`<g>
      <title>${this.#path.lanes[piece.lane]}: ${state.label}${detail ? `, ${detail}` : ""}, ${took}, from ${readable("begin_s", piece.begin_s)}</title>
      <rect class="requests-piece" x=${left.toFixed(2)} y=${y} width=${wide.toFixed(2)} height=${BAR} fill=${state.color} />
      ${text ? svg`<text class="requests-label" x=${((left + right) / 2).toFixed(1)} y=${y + 15} text-anchor="middle">${text}</text>` : nothing}
    </g>`;
  }

  #typed(event) {
    const does = {
      "+": () => this.#zoom(STEP),
      "=": () => this.#zoom(STEP),
      "-": () => this.#zoom(1 / STEP),
      0: () => this.#show(0, Infinity),
      ArrowLeft: () => this.#move(-0.1),
      ArrowRight: () => this.#move(0.1),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  #wheeled(event) {
    if (document.activeElement !== event.currentTarget && !event.ctrlKey) return;
    event.preventDefault();
    const corner = event.currentTarget.getBoundingClientRect();
    this.#zoom(event.deltaY < 0 ? STEP : 1 / STEP, (event.clientX - corner.left) / corner.width);
  }

  #pressed(event) {
    if (!this.#window) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.#grabbed = { x: event.clientX, ...this.window };
  }

  #dragged(event) {
    if (!this.#grabbed) return;
    const { x, begin, end } = this.#grabbed;
    this.#show(begin - ((event.clientX - x) / this.clientWidth) * (end - begin), end - begin);
  }
}

const middle = (lane) => LANE * lane + NAME + BAR / 2;

/** The end of an arrow: the nearer edge of the bars. */
const edge = ({ source, target }) => middle(target) + (target > source ? -BAR / 2 : BAR / 2);

/** Shorten a thread's name at its start, since its number is at the end. */
function cut(name, width) {
  const room = Math.max(Math.floor(width / CHARACTER), 8);
  return name.length <= room ? name : `...${name.slice(3 - room)}`;
}

customElements.define("laggard-lanes", Lanes);
