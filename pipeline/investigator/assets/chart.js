/**
 * Charts of time series, on uPlot: fast at 100,000 points.
 *
 * A chart is a custom element, so that a template can hold one: `<laggard-chart .chart=${...}></laggard-chart>`.
 */

import uPlot from "./packages/uplot/uPlot.esm.js";
import { clock, moment, readable, readables } from "./format.js";

const PALETTE = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];

/** The zoom factor of one turn of the wheel. */
const ZOOM = 1.25;

/** The pause after which the wheel counts as at rest. */
const REST_MS = 150;

/** The longest label on a chart, in characters. */
const LONGEST = 40;

/** The height of a label at a crosshair, in pixels. */
const LABEL = 14;

/** With fewer points than this, each is drawn as a dot. */
const DOTS = 60;

/**
 * A chart of lines over time.
 *
 * Properties:
 * - `chart`: {
 *     feature: string,            the feature's name, which determines the unit of the axis
 *     ts: number[],               seconds since the Unix epoch, ascending
 *     lines: [{label: string, values: (number|null)[], dashed?: boolean}],
 *     extremes?: {low: (number|null)[], high: (number|null)[]},   of the first line, if a point stands for several ticks
 *     band?: {low: number|(number|null)[], high: number|(number|null)[]},   the baseline
 *     moment?: number,            the crosshair: the selected moment
 *     other?: number,             a second moment to compare with
 *     marks?: [{ts: number, label: string}],
 *     spans?: [{from: number, to: number|null}],   incidents; null for an open one
 *     from?: number, to?: number, the range of the axis
 *     wheel?: boolean,            whether the wheel zooms instead of scrolling the page
 *     sync?: string               charts of the same name share a crosshair
 *   }
 * - `label`: the description for screen readers
 * - `height`: pixels; 0 for the height of the element
 *
 * Events: `pick` with `detail.ts` after a click; `range` with `detail.from`, `detail.to` after dragging or turning the
 * wheel.
 */
class Chart extends HTMLElement {
  #chart;
  #plot;
  #tip;
  #shape = "";
  #resting;
  #height = 220;
  #resized = new ResizeObserver(() => this.#resize());
  #scheme = window.matchMedia("(prefers-color-scheme: dark)");
  #colors = new Map();
  #recolored = () => {
    this.#colors.clear();
    this.#draw(true);
  };

  set chart(chart) {
    this.#chart = chart;
    if (this.isConnected) this.#draw();
  }

  set label(label) {
    this.setAttribute("role", "img");
    this.setAttribute("aria-label", label);
  }

  set height(height) {
    this.#height = height;
  }

  /** For tests. */
  get plot() {
    return this.#plot;
  }

  connectedCallback() {
    this.#resized.observe(this);
    this.#scheme.addEventListener("change", this.#recolored);
    window.addEventListener("laggard-theme", this.#recolored);
    this.#draw(true);
  }

  disconnectedCallback() {
    clearTimeout(this.#resting);
    this.#resized.disconnect();
    this.#scheme.removeEventListener("change", this.#recolored);
    window.removeEventListener("laggard-theme", this.#recolored);
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  /** A color variable of the style sheet for a canvas; as the value of `color`, the browser resolves `light-dark()`. */
  #color(name) {
    if (!this.#colors.has(name)) {
      this.style.setProperty("color", `var(${name})`);
      this.#colors.set(name, getComputedStyle(this).color);
      this.style.removeProperty("color");
    }
    return this.#colors.get(name);
  }

  /** Pixels above the plot for the labels of crosshairs and marks, which would hide the lines. */
  #headroom() {
    const { marks = [], moment: asked, other } = this.#chart;
    return 6 + LABEL * ((asked !== undefined) + (other !== undefined) + (marks.length > 0));
  }

  #size() {
    return { width: Math.max(this.clientWidth, 100), height: this.#height || Math.max(this.clientHeight, 120) };
  }

  #resize() {
    const { width, height } = this.#size();
    if (this.#plot && (this.#plot.width !== width || this.#plot.height !== height)) this.#plot.setSize({ width, height });
  }

  #data() {
    const { ts, lines, extremes } = this.#chart;
    return [ts, ...lines.map((line) => line.values), ...(extremes ? [extremes.low, extremes.high] : [])];
  }

  #draw(anew = false) {
    const chart = this.#chart;
    if (!chart) return;
    const lines = chart.lines.map((line) => [line.label, line.dashed]);
    const { extremes, feature, ts, wheel } = chart;
    const shape = JSON.stringify([feature, lines, !extremes, !wheel, ts.length < DOTS, this.#headroom()]);
    if (!anew && this.#plot && shape === this.#shape) {
      this.#plot.setData(this.#data(), false);
      this.#plot.setScale("x", this.#range());
      return;
    }
    this.#shape = shape;
    this.#plot?.destroy();
    this.#tip = document.createElement("div");
    this.#tip.className = "chart-tip";
    this.#tip.hidden = true;
    this.#plot = new uPlot(this.#options(chart), this.#data(), this);
  }

  #range() {
    const { ts, from, to } = this.#chart;
    return { min: from ?? ts[0] ?? 0, max: to ?? ts.at(-1) ?? 1 };
  }

  #options(chart) {
    const grid = { stroke: this.#color("--grid"), width: 1 };
    const axis = { stroke: this.#color("--muted"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const range = this.#range();
    const bound = { stroke: "transparent", width: 0, points: { show: false } };
    const count = chart.lines.length;
    return {
      ...this.#size(),
      padding: [this.#headroom(), null, null, null],
      cursor: { drag: { x: true, y: false, setScale: false }, y: false, sync: chart.sync && synchronized(chart.sync) },
      legend: { show: count > 1 },
      scales: { x: { time: true, min: range.min, max: range.max }, y: { range: (_, low, high) => this.#limits(low, high) } },
      axes: [
        // The first label of a day has the date below the time.
        { ...axis, size: (_, labels) => (labels?.some((each) => each.includes("\n")) ? 50 : 34), space: 70, values: (_, splits, __, ___, step) => times(splits, step) },
        { ...axis, size: 76, values: (_, splits) => readables(chart.feature, splits) },
      ],
      bands: chart.extremes ? [{ series: [count + 2, count + 1], fill: this.#color("--extremes-fill") }] : [],
      series: [
        { label: "Time", value: (_, ts) => (ts === null ? "" : moment(ts)) },
        ...chart.lines.map((line, number) => this.#series(line, this.#color(PALETTE[number % PALETTE.length]))),
        ...(chart.extremes ? [bound, bound] : []),
      ],
      hooks: {
        drawClear: [(plot) => this.#below(plot)],
        draw: [(plot) => this.#above(plot)],
        setSelect: [(plot) => this.#selected(plot)],
        setCursor: [(plot) => this.#pointed(plot)],
        ready: [(plot) => this.#ready(plot)],
      },
    };
  }

  #series(line, color) {
    const { feature, ts } = this.#chart;
    return {
      label: line.label,
      stroke: color,
      width: 1.5,
      dash: line.dashed ? [6, 4] : undefined,
      points: { show: ts.length < DOTS, size: 5, fill: color, filter: alone },
      value: (_, value) => readable(feature, value),
    };
  }

  #limits(low, high) {
    const { band } = this.#chart;
    const highs = band ? [].concat(band.high).filter((value) => Number.isFinite(value)) : [];
    const most = highs.reduce((a, b) => Math.max(a, b), high ?? 0);
    const least = Math.min(low ?? 0, 0);
    return [least, most > least ? most + 0.05 * (most - least) : least + 1];
  }

  #below(plot) {
    const { spans = [] } = this.#chart;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = this.#color("--incident-fill");
    for (const span of spans) {
      const begin = across(plot, span.from);
      ctx.fillRect(begin, bbox.top, Math.max(across(plot, span.to ?? plot.scales.x.max) - begin, 2), bbox.height);
    }
    this.#usual(plot);
    ctx.restore();
  }

  #usual(plot) {
    const { band, ts } = this.#chart;
    if (!band || !ts.length) return;
    const { ctx, bbox } = plot;
    const y = (value) => Math.min(Math.max(plot.valToPos(value, "y", true), bbox.top), bbox.top + bbox.height);
    ctx.fillStyle = this.#color("--usual-fill");
    if (!Array.isArray(band.low)) {
      if (band.low === null || band.high === null) return;
      ctx.fillRect(bbox.left, y(band.high), bbox.width, Math.max(y(band.low) - y(band.high), 2));
      return;
    }
    let begin = -1;
    for (let index = 0; index <= ts.length; index++) {
      const there = index < ts.length && Number.isFinite(band.low[index]) && Number.isFinite(band.high[index]);
      if (there && begin < 0) begin = index;
      if (there || begin < 0) continue;
      ctx.beginPath();
      for (let each = begin; each < index; each++) ctx.lineTo(across(plot, ts[each]), y(band.high[each]));
      for (let each = index - 1; each >= begin; each--) ctx.lineTo(across(plot, ts[each]), y(band.low[each]));
      ctx.fill();
      begin = -1;
    }
  }

  #above(plot) {
    const { marks = [], moment: asked, other } = this.#chart;
    const dots = [2 * devicePixelRatio, 3 * devicePixelRatio];
    const taken = [];
    for (const mark of marks) this.#line(plot, mark.ts, "--mark", dots, mark.label, 1, taken);
    // Each label has its own row above the plot, since two moments may be close together.
    const row = marks.length ? 2 : 1;
    if (asked !== undefined) {
      this.#level(plot, asked);
      this.#line(plot, asked, "--crosshair", [], clock(asked), row);
    }
    if (other !== undefined) this.#line(plot, other, "--other", [], clock(other), asked === undefined ? row : row + 1);
  }

  /** The horizontal line of the crosshair, at the first line's value at the moment. */
  #level(plot, asked) {
    const { ts } = this.#chart;
    const [, values] = this.#data();
    if (!ts.length || asked < plot.scales.x.min || asked > plot.scales.x.max) return;
    const index = nearest(ts, asked);
    if (!Number.isFinite(values?.[index])) return;
    const { ctx, bbox } = plot;
    const y = Math.round(plot.valToPos(values[index], "y", true)) + 0.5;
    const x = across(plot, ts[index]);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = this.#color("--crosshair");
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.beginPath();
    ctx.arc(x, y, 4 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.restore();
  }

  /** A vertical line with a label above the plot, unless the label overlaps another one in `taken`. */
  #line(plot, ts, name, dash, label, row, taken = []) {
    const { ctx, bbox } = plot;
    const x = Math.round(plot.valToPos(ts, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = this.#color(name);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top - LABEL * row * devicePixelRatio);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const left = x > bbox.left + bbox.width * 0.75;
    ctx.textAlign = left ? "right" : "left";
    const text = label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label;
    const start = x + (left ? -4 : 4) * devicePixelRatio;
    const wide = ctx.measureText(text).width;
    const [from, to] = left ? [start - wide, start] : [start, start + wide];
    if (text && !taken.some((other) => from < other.to && other.from < to)) {
      taken.push({ from, to });
      const at = [start, bbox.top - (LABEL * row + 2) * devicePixelRatio];
      ctx.setLineDash([]);
      ctx.lineWidth = 4 * devicePixelRatio;
      ctx.lineJoin = "round";
      ctx.strokeStyle = this.#color("--card"); // hides lines that cross it
      ctx.strokeText(text, ...at);
      ctx.fillText(text, ...at);
    }
    ctx.restore();
  }

  #ready(plot) {
    plot.over.append(this.#tip);
    plot.over.addEventListener("click", () => this.#clicked(plot));
    if (this.#chart.wheel) plot.over.addEventListener("wheel", (event) => this.#wheeled(plot, event), { passive: false });
  }

  #pointed(plot) {
    const { idx, left } = plot.cursor;
    const [ts, values, ...more] = plot.data;
    this.#tip.hidden = plot.series.length > 2 + (this.#chart.extremes ? 2 : 0) || left < 0 || !Number.isFinite(values?.[idx]);
    if (this.#tip.hidden) return;
    const text = (value) => readable(this.#chart.feature, value);
    const [low, high] = this.#chart.extremes ? [more[0][idx], more[1][idx]] : [];
    const between = low < high ? ` (${text(low)} to ${text(high)})` : "";
    this.#tip.textContent = `${clock(ts[idx])}  ${text(values[idx])}${between}`;
    const right = left > plot.over.clientWidth / 2;
    this.#tip.style.setProperty("transform", `translate(calc(${left}px + ${right ? "-100% - 10px" : "10px"}), 1.4rem)`);
  }

  #wheeled(plot, event) {
    event.preventDefault();
    const { min, max } = plot.scales.x;
    const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
    const factor = event.deltaY > 0 ? ZOOM : 1 / ZOOM;
    const range = { min: at - (at - min) * factor, max: at + (max - at) * factor };
    // The chart changes immediately, the address when the wheel rests: browsers limit changes of the address.
    plot.setScale("x", range);
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => this.#emit("range", { from: range.min, to: range.max }), REST_MS);
  }

  #selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const from = plot.posToVal(left, "x");
    const to = plot.posToVal(left + width, "x");
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.#emit("range", { from, to });
  }

  #clicked(plot) {
    const { idx } = plot.cursor;
    if (idx === null || idx === undefined) return;
    this.#emit("pick", { ts: plot.data[0][idx] });
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }
}

/** Share the crosshair between charts of one name, but not clicks and dragging. */
function synchronized(key) {
  return { key, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } };
}

/** The x position of a moment on the canvas; at the edge if it is outside. */
function across(plot, ts) {
  const { left, width } = plot.bbox;
  return Math.min(Math.max(plot.valToPos(ts, "x", true), left), left + width);
}

/** The index of the nearest time. */
function nearest(ts, wanted) {
  let low = 0;
  let high = ts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ts[middle] <= wanted) low = middle;
    else high = middle;
  }
  return high > low && ts[high] - wanted < wanted - ts[low] ? high : low;
}

/** The points without neighbors, which are drawn as dots; null if all points are drawn as dots. */
function alone(plot, number, shown) {
  if (shown) return null;
  const values = plot.data[number];
  const there = (index) => values[index] !== null && values[index] !== undefined;
  const [first, last] = plot.series[0].idxs;
  const found = [];
  for (let index = first; index <= last; index++) {
    if (there(index) && !there(index - 1) && !there(index + 1)) found.push(index);
  }
  return found;
}

/** The labels of the time axis: the time of day, with the date at a change of day. */
function times(splits, step) {
  let before = "";
  return splits.map((ts) => {
    const [date, time] = moment(ts).split(" ");
    const label = step >= 86400 ? date.slice(5) : step >= 60 ? time.slice(0, 5) : time;
    const changed = before && date !== before && step < 86400;
    before = date;
    return changed ? `${label}\n${date.slice(5)}` : label;
  });
}

customElements.define("laggard-chart", Chart);
