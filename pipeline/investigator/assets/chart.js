/**
 * Charts of time series, on uPlot: fast at 100,000 points.
 *
 * A chart is a custom element, so that a template can hold one: `<laggard-chart .series=${...}></laggard-chart>`.
 */

import uPlot from "./packages/uplot/uPlot.esm.js";
import { clock, moment, readable, utc } from "./format.js";

const color = (element, name) => getComputedStyle(element).getPropertyValue(name).trim();
const PALETTE = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];

/**
 * A chart of lines over time.
 *
 * Properties:
 * - `chart`: {
 *     feature: string,            the feature's name, which decides on the unit of the axis
 *     ts: number[],               seconds since the Unix epoch, ascending
 *     lines: [{label: string, values: (number|null)[], dashed?: boolean}],
 *     band?: {low: number|number[], high: number|number[]},   what is usual
 *     moment?: number,            the crosshair: the moment asked about
 *     marks?: [{ts: number, label: string}],
 *     spans?: [{from: number, to: number|null, label: string}],   incidents; null while it lasts
 *     from?: number, to?: number  what the axis shows
 *   }
 * - `label`: what it shows, for screen readers
 * - `height`: pixels
 *
 * Events: `pick` with `detail.ts` when a moment is clicked; `range` with `detail.from`, `detail.to` when a stretch is
 * dragged.
 */
class Chart extends HTMLElement {
  #chart;
  #plot;
  #shape = "";
  #height = 220;
  #resized = new ResizeObserver(() => this.#plot?.setSize(this.#size()));
  #scheme = window.matchMedia("(prefers-color-scheme: dark)");
  #recolored = () => this.#draw(true);

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

  /** For tests, and for views that move the crosshair along. */
  get plot() {
    return this.#plot;
  }

  connectedCallback() {
    this.#resized.observe(this);
    this.#scheme.addEventListener("change", this.#recolored);
    this.#draw(true);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
    this.#scheme.removeEventListener("change", this.#recolored);
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  #size() {
    return { width: Math.max(this.clientWidth, 100), height: this.#height };
  }

  #draw(anew = false) {
    const chart = this.#chart;
    if (!chart) return;
    const shape = JSON.stringify([chart.feature, chart.lines.map((line) => [line.label, line.dashed])]);
    const data = [chart.ts, ...chart.lines.map((line) => line.values)];
    if (!anew && this.#plot && shape === this.#shape) {
      this.#plot.setData(data, false);
      this.#plot.setScale("x", this.#range());
      return;
    }
    this.#shape = shape;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(chart), data, this);
  }

  #range() {
    const { ts, from, to } = this.#chart;
    return { min: from ?? ts[0] ?? 0, max: to ?? ts.at(-1) ?? 1 };
  }

  #options(chart) {
    const axis = { stroke: color(this, "--muted"), grid: { stroke: color(this, "--grid"), width: 1 }, ticks: { stroke: color(this, "--grid") } };
    const range = this.#range();
    return {
      ...this.#size(),
      cursor: { drag: { x: true, y: false, setScale: false }, y: false },
      legend: { show: chart.lines.length > 1 },
      scales: { x: { time: true, min: range.min, max: range.max }, y: { range: (_, low, high) => this.#limits(low, high) } },
      axes: [
        { ...axis },
        { ...axis, size: 72, values: (_, splits) => splits.map((value) => readable(chart.feature, value)) },
      ],
      series: [
        { value: (_, ts) => (ts === null ? "" : `${moment(ts)} (${utc(ts)})`) },
        ...chart.lines.map((line, number) => ({
          label: line.label,
          stroke: color(this, PALETTE[number % PALETTE.length]),
          width: 1.5,
          dash: line.dashed ? [6, 4] : undefined,
          points: { show: chart.ts.length < 60 },
          value: (_, value) => readable(chart.feature, value),
        })),
      ],
      hooks: {
        drawClear: [(plot) => this.#below(plot)],
        draw: [(plot) => this.#above(plot)],
        setSelect: [(plot) => this.#selected(plot)],
        ready: [(plot) => plot.over.addEventListener("click", () => this.#clicked(plot))],
      },
    };
  }

  #limits(low, high) {
    const { band } = this.#chart;
    const highs = band ? [].concat(band.high).filter((value) => value !== null && Number.isFinite(value)) : [];
    const most = highs.reduce((a, b) => Math.max(a, b), high ?? 0);
    const least = Math.min(low ?? 0, 0);
    return [least, most > least ? most + 0.05 * (most - least) : least + 1];
  }

  #below(plot) {
    const { band, spans = [], ts } = this.#chart;
    const { ctx, bbox } = plot;
    const x = (at) => Math.min(Math.max(plot.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width);
    ctx.save();
    ctx.fillStyle = color(this, "--incident-fill");
    for (const span of spans) {
      const begin = x(span.from);
      ctx.fillRect(begin, bbox.top, Math.max(x(span.to ?? plot.scales.x.max) - begin, 2), bbox.height);
    }
    if (band && ts.length) {
      const at = (values, index) => (Array.isArray(values) ? values[index] : values);
      const points = Array.isArray(band.low) ? ts.map((_, index) => index) : [0, ts.length - 1];
      const y = (value) => Math.min(Math.max(plot.valToPos(value, "y", true), bbox.top), bbox.top + bbox.height);
      const left = Array.isArray(band.low) ? (index) => x(ts[index]) : (index) => (index === 0 ? bbox.left : bbox.left + bbox.width);
      ctx.fillStyle = color(this, "--usual-fill");
      ctx.beginPath();
      for (const index of points) ctx.lineTo(left(index), y(at(band.high, index)));
      for (const index of points.reverse()) ctx.lineTo(left(index), y(at(band.low, index)));
      ctx.fill();
    }
    ctx.restore();
  }

  #above(plot) {
    const { marks = [], moment: asked } = this.#chart;
    for (const mark of marks) this.#line(plot, mark.ts, "--mark", [2 * devicePixelRatio, 3 * devicePixelRatio], mark.label);
    if (asked !== undefined) this.#line(plot, asked, "--crosshair", [], clock(asked));
  }

  #line(plot, ts, name, dash, label) {
    const { ctx, bbox } = plot;
    const x = Math.round(plot.valToPos(ts, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color(this, name);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const left = x > bbox.left + bbox.width * 0.75;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(label.length > 40 ? `${label.slice(0, 39)}…` : label, x + (left ? -4 : 4) * devicePixelRatio, bbox.top + 2);
    ctx.restore();
  }

  #selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const from = plot.posToVal(left, "x");
    const to = plot.posToVal(left + width, "x");
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.dispatchEvent(new CustomEvent("range", { detail: { from, to }, bubbles: true }));
  }

  #clicked(plot) {
    const { idx } = plot.cursor;
    if (idx === null || idx === undefined) return;
    this.dispatchEvent(new CustomEvent("pick", { detail: { ts: plot.data[0][idx] }, bubbles: true }));
  }
}

customElements.define("laggard-chart", Chart);
