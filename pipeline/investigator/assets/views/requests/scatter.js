/** Requests on a plane, with logarithmic colors for durations; on a canvas, fast with 10,000 points. */

import { readable } from "../../format.js";
import { color, isDark } from "./palette.js";
import { evenTicks, logTicks } from "./ticks.js";

/** The shapes of points: the first for normal requests, the others for clusters. */
const SHAPES = ["circle", "triangle", "square", "diamond", "plus", "star", "down", "cross"];

/** The shapes as characters, for the legend. */
export const GLYPHS = ["●", "▲", "■", "◆", "✚", "★", "▼", "✖"];

const COLORS = 64;
const MARGIN = { top: 8, right: 10, bottom: 70, left: 58 };
const LEGEND = 10;
const NEAR = 14;
const MOST_ZOOM = 1e6;
const STEP = 1.4;
const SMALL = 3;
const LARGE = 5.5;

/**
 * A scatter plot.
 *
 * Properties:
 * - `scatter`: {
 *     x: number[], y: number[],    seconds; the axes are logarithmic on both sides of the normal requests (asinh)
 *     value: number[],             the value of the color, positive
 *     feature: string,             of the value, which determines its unit
 *     shape: number[],             the index in SHAPES
 *     text: (index) => string,     the tooltip of a point
 *     chosen?: number              the index of the selected one
 *   }
 * - `label`: the description for screen readers
 *
 * Events: `pick` with `detail.index` after a click on a point.
 */
class Scatter extends HTMLElement {
  #scatter;
  #canvas = document.createElement("canvas");
  #tip = document.createElement("div");
  #resized = new ResizeObserver(() => this.#draw());
  #scheme = window.matchMedia("(prefers-color-scheme: dark)");
  #recolored = () => {
    this.#sprites.clear();
    this.#colors = undefined;
    this.#draw();
  };
  #colors;
  #sprites = new Map();
  #window;
  #fitted;
  #near;
  #grabbed;
  #asked = false;

  constructor() {
    super();
    this.#canvas.tabIndex = 0;
    this.#canvas.setAttribute("role", "img");
    this.#tip.className = "chart-tip requests-tip";
    this.#tip.hidden = true;
    const on = (name, handler, options) => this.#canvas.addEventListener(name, handler, options);
    on("pointermove", (event) => this.#moved(event));
    on("pointerdown", (event) => this.#pressed(event));
    on("pointerup", (event) => this.#released(event));
    on("pointercancel", () => (this.#grabbed = undefined));
    on("pointerleave", () => this.#point(undefined));
    on("keydown", (event) => this.#typed(event));
    on("wheel", (event) => this.#wheeled(event), { passive: false });
    on("dblclick", () => this.all());
  }

  set scatter(scatter) {
    const before = this.#scatter;
    this.#scatter = scatter;
    if (before?.x !== scatter.x) {
      this.#point(undefined);
      this.#fit();
    }
    this.#ask();
  }

  set label(label) {
    this.#canvas.setAttribute("aria-label", label);
  }

  connectedCallback() {
    this.append(this.#canvas, this.#tip);
    this.#resized.observe(this);
    this.#scheme.addEventListener("change", this.#recolored);
    window.addEventListener("laggard-theme", this.#recolored);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
    this.#scheme.removeEventListener("change", this.#recolored);
    window.removeEventListener("laggard-theme", this.#recolored);
  }

  /** Show all points. */
  all() {
    this.#window = undefined;
    this.#ask();
  }

  /** Zoom by a factor around a place in pixels, or the middle. */
  zoom(times, at = undefined) {
    const window = this.#seen();
    const { width, height } = this.#size();
    const x = at ? (at.x - MARGIN.left) / (width - MARGIN.left - MARGIN.right) : 0.5;
    const y = at ? (at.y - MARGIN.top) / (height - MARGIN.top - MARGIN.bottom) : 0.5;
    const [wide, high] = [(window.right - window.left) / times, (window.top - window.bottom) / times];
    if (wide * MOST_ZOOM < this.#fitted.right - this.#fitted.left) return;
    const left = window.left + x * (window.right - window.left - wide);
    const top = window.top - y * (window.top - window.bottom - high);
    this.#window = { left, right: left + wide, top, bottom: top - high };
    this.#ask();
  }

  /** The place of a point in pixels from the element's corner; for tests. */
  placeOf(index) {
    const { x, y } = this.#scale();
    return { x: x(this.#places.x[index]), y: y(this.#places.y[index]) };
  }

  /** The milliseconds of drawing all points; for measurements. */
  measure() {
    const began = performance.now();
    this.#draw();
    return performance.now() - began;
  }

  // Places: asinh of the distance from the middle of the normal requests, in units of their spread.

  #places = { x: [], y: [] };
  #middle = { x: 0, y: 0 };
  #unit = 1;

  #fit() {
    const { x, y, shape } = this.#scatter;
    const normal = shape.flatMap((each, index) => (each === 0 ? [index] : []));
    const these = normal.length ? normal : shape.map((_, index) => index);
    this.#middle = { x: median(these.map((index) => x[index])), y: median(these.map((index) => y[index])) };
    const away = these.map((index) => Math.hypot(x[index] - this.#middle.x, y[index] - this.#middle.y));
    this.#unit = Math.max(median(away), 1e-6);
    this.#places = { x: x.map((value) => this.#placed(value - this.#middle.x)), y: y.map((value) => this.#placed(value - this.#middle.y)) };
    const [left, right] = limits(this.#places.x);
    const [bottom, top] = limits(this.#places.y);
    this.#fitted = { left, right, bottom, top };
    this.#window = undefined;
    const [low, high] = limits(this.#scatter.value.map((value) => Math.log(Math.max(value, 1e-9))), 0);
    this.colors = { low, high };
  }

  #placed(distance) {
    return Math.asinh(distance / this.#unit);
  }

  #seen() {
    return this.#window ?? this.#fitted;
  }

  #size() {
    return { width: Math.max(this.clientWidth, 160), height: Math.max(this.clientHeight, 160) };
  }

  /** Functions from places to pixels; computed once for all points, since reading the element's size is slow. */
  #scale() {
    const { left, right, bottom, top } = this.#seen();
    const { width, height } = this.#size();
    const across = (width - MARGIN.left - MARGIN.right) / (right - left);
    const up = (height - MARGIN.top - MARGIN.bottom) / (top - bottom);
    return { x: (place) => MARGIN.left + (place - left) * across, y: (place) => MARGIN.top + (top - place) * up };
  }

  #share(value) {
    const { low, high } = this.colors;
    return high > low ? (Math.log(Math.max(value, 1e-9)) - low) / (high - low) : 0.5;
  }

  // Drawing.

  #ask() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      if (this.isConnected) this.#draw();
    });
  }

  #draw() {
    if (!this.#scatter) return;
    const { width, height } = this.#size();
    const dense = devicePixelRatio;
    if (this.#canvas.width !== Math.round(width * dense) || this.#canvas.height !== Math.round(height * dense)) {
      this.#canvas.width = Math.round(width * dense);
      this.#canvas.height = Math.round(height * dense);
    }
    const colors = (this.#colors ??= this.#named());
    const ctx = this.#canvas.getContext("2d");
    ctx.setTransform(dense, 0, 0, dense, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.font = "11px system-ui, sans-serif";
    this.#axes(ctx, width, height, colors);
    ctx.save();
    ctx.beginPath();
    ctx.rect(MARGIN.left, MARGIN.top, width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom);
    ctx.clip();
    this.#points(ctx, colors);
    ctx.restore();
    this.#legend(ctx, width, height, colors);
  }

  /** The page's colors for the canvas. */
  #named() {
    const found = {};
    for (const name of ["text", "muted", "grid", "card", "alarm"]) {
      this.style.setProperty("color", `var(--${name})`);
      found[name] = getComputedStyle(this).color;
    }
    this.style.removeProperty("color");
    return found;
  }

  #axes(ctx, width, height, colors) {
    const seen = this.#seen();
    const { x, y } = this.#scale();
    ctx.strokeStyle = colors.grid;
    ctx.fillStyle = colors.muted;
    ctx.lineWidth = 1;
    const bottom = height - MARGIN.bottom;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    for (const [value, at] of this.#ticks(seen.left, seen.right, x, 52)) {
      ctx.beginPath();
      ctx.moveTo(Math.round(at) + 0.5, MARGIN.top);
      ctx.lineTo(Math.round(at) + 0.5, bottom);
      ctx.stroke();
      ctx.fillText(signed(value), at, bottom + 4);
    }
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const [value, at] of this.#ticks(seen.bottom, seen.top, y, 22)) {
      ctx.beginPath();
      ctx.moveTo(MARGIN.left, Math.round(at) + 0.5);
      ctx.lineTo(width - MARGIN.right, Math.round(at) + 0.5);
      ctx.stroke();
      ctx.fillText(signed(value), MARGIN.left - 5, at);
    }
  }

  /** Round distances from the normal requests, with their places: as many as fit, the most important first. */
  #ticks(low, high, place, room) {
    const [from, to] = [low, high].map((each) => this.#unit * Math.sinh(each));
    const far = Math.max(Math.abs(from), Math.abs(to));
    const powers = logTicks(Math.max(this.#unit / 2, far * 1e-6), far, 1).flatMap((value) => [value, -value]);
    const wanted = [0, ...powers.sort((a, b) => Math.abs(b) - Math.abs(a)), ...evenTicks(from, to, 6)];
    const found = [];
    for (const value of wanted) {
      if (value < from || value > to) continue;
      const at = place(this.#placed(value));
      if (found.every(([, other]) => Math.abs(other - at) >= room)) found.push([value, at]);
    }
    return found;
  }

  #points(ctx, colors) {
    const { value, shape, chosen } = this.#scatter;
    const dark = isDark();
    const dense = devicePixelRatio;
    const { x, y } = this.#scale();
    const { width, height } = this.#size();
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    for (const outlying of [false, true]) {
      for (let index = 0; index < shape.length; index += 1) {
        if (shape[index] > 0 !== outlying) continue;
        const [left, top] = [x(this.#places.x[index]), y(this.#places.y[index])];
        if (left < 0 || left > width || top < 0 || top > height) continue;
        const sprite = this.#sprite(shape[index], Math.round(this.#share(value[index]) * (COLORS - 1)), dark, colors);
        // Whole pixels avoid interpolation.
        ctx.drawImage(sprite, Math.round(left * dense - sprite.width / 2), Math.round(top * dense - sprite.height / 2));
      }
    }
    ctx.restore();
    for (const index of [chosen, this.#near]) {
      if (index === undefined) continue;
      ctx.strokeStyle = index === chosen ? colors.alarm : colors.text;
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.arc(x(this.#places.x[index]), y(this.#places.y[index]), 10, 0, 2 * Math.PI);
      ctx.stroke();
    }
  }

  #sprite(shape, bin, dark, colors) {
    const key = (shape * COLORS + bin) * 16 + devicePixelRatio;
    const known = this.#sprites.get(key);
    if (known) return known;
    const size = shape ? LARGE : SMALL;
    const sprite = document.createElement("canvas");
    sprite.width = sprite.height = Math.ceil(2 * (size + 2) * devicePixelRatio);
    const ctx = sprite.getContext("2d");
    ctx.scale(devicePixelRatio, devicePixelRatio);
    ctx.translate(sprite.width / devicePixelRatio / 2, sprite.height / devicePixelRatio / 2);
    outline(ctx, SHAPES[shape], size);
    ctx.fillStyle = color(bin / (COLORS - 1), dark);
    ctx.fill();
    ctx.strokeStyle = shape ? colors.text : colors.card;
    ctx.lineWidth = shape ? 1.2 : 0.6;
    ctx.stroke();
    this.#sprites.set(key, sprite);
    return sprite;
  }

  #legend(ctx, width, height, colors) {
    const { feature } = this.#scatter;
    const { low, high } = this.colors;
    const [left, right, top] = [MARGIN.left, width - MARGIN.right, height - 38];
    const dark = isDark();
    const fill = ctx.createLinearGradient(left, 0, right, 0);
    for (let stop = 0; stop <= 16; stop += 1) fill.addColorStop(stop / 16, color(stop / 16, dark));
    ctx.fillStyle = high > low ? fill : color(0.5, dark);
    ctx.fillRect(left, top, right - left, LEGEND);
    ctx.fillStyle = ctx.strokeStyle = colors.muted;
    ctx.textBaseline = "top";
    let last = -Infinity;
    for (const value of logTicks(Math.exp(low), Math.exp(high), (right - left) / 60)) {
      const x = high > low ? left + this.#share(value) * (right - left) : (left + right) / 2;
      ctx.beginPath();
      ctx.moveTo(Math.round(x) + 0.5, top + LEGEND);
      ctx.lineTo(Math.round(x) + 0.5, top + LEGEND + 4);
      ctx.stroke();
      const text = readable(feature, value);
      const half = ctx.measureText(text).width / 2;
      const at = Math.min(Math.max(x, left + half), right - half);
      if (at - half < last + 6) continue;
      last = at + half;
      ctx.textAlign = "center";
      ctx.fillText(text, at, top + LEGEND + 6);
    }
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillText("duration", left - 5, top + LEGEND / 2);
  }

  // Events.

  #at(event) {
    const corner = this.#canvas.getBoundingClientRect();
    return { x: event.clientX - corner.left, y: event.clientY - corner.top };
  }

  #nearest(at) {
    let found;
    let least = NEAR * NEAR;
    const { shape } = this.#scatter;
    const { x, y } = this.#scale();
    for (let index = 0; index < shape.length; index += 1) {
      const [dx, dy] = [x(this.#places.x[index]) - at.x, y(this.#places.y[index]) - at.y];
      // Of two equally near points, prefer the outlier, which is drawn on top.
      const away = dx * dx + dy * dy - (shape[index] ? 4 : 0);
      if (away < least) [found, least] = [index, away];
    }
    return found;
  }

  #moved(event) {
    const at = this.#at(event);
    if (!this.#grabbed) {
      this.#point(this.#nearest(at));
      return;
    }
    const { window, from } = this.#grabbed;
    const { width, height } = this.#size();
    const right = ((at.x - from.x) / (width - MARGIN.left - MARGIN.right)) * (window.right - window.left);
    const up = ((at.y - from.y) / (height - MARGIN.top - MARGIN.bottom)) * (window.top - window.bottom);
    if (Math.hypot(at.x - from.x, at.y - from.y) > 4) this.#grabbed.dragged = true;
    if (!this.#grabbed.dragged) return;
    this.#window = { left: window.left - right, right: window.right - right, top: window.top + up, bottom: window.bottom + up };
    this.#point(undefined);
    this.#ask();
  }

  #pressed(event) {
    this.#canvas.setPointerCapture(event.pointerId);
    this.#grabbed = { from: this.#at(event), window: this.#seen(), dragged: false };
  }

  #released(event) {
    const dragged = this.#grabbed?.dragged;
    this.#grabbed = undefined;
    if (dragged) return;
    const index = this.#nearest(this.#at(event));
    if (index !== undefined) this.#pick(index);
  }

  #pick(index) {
    this.dispatchEvent(new CustomEvent("pick", { detail: { index }, bubbles: true }));
  }

  #point(index) {
    if (index === this.#near) return;
    this.#near = index;
    this.#tip.hidden = index === undefined;
    if (index !== undefined) {
      this.#tip.textContent = this.#scatter.text(index);
      const { x, y } = this.placeOf(index);
      const left = Math.min(Math.max(x + 12, 0), this.#size().width - this.#tip.offsetWidth);
      const below = y < this.#tip.offsetHeight + 16;
      this.#tip.style.setProperty("transform", `translate(${Math.max(left, 0)}px, ${below ? y + 14 : y - this.#tip.offsetHeight - 10}px)`);
    }
    this.#ask();
  }

  #typed(event) {
    const { left, right, top, bottom } = this.#seen();
    const [across, up] = [0.1 * (right - left), 0.1 * (top - bottom)];
    const moves = { ArrowLeft: [-across, 0], ArrowRight: [across, 0], ArrowUp: [0, up], ArrowDown: [0, -up] };
    if (moves[event.key]) {
      const [x, y] = moves[event.key];
      this.#window = { left: left + x, right: right + x, top: top + y, bottom: bottom + y };
      this.#ask();
    } else if (event.key === "+" || event.key === "=") this.zoom(STEP);
    else if (event.key === "-") this.zoom(1 / STEP);
    else if (event.key === "0") this.all();
    else return;
    event.preventDefault();
  }

  /** Only with the focus, so that the page can be scrolled past the plot. */
  #wheeled(event) {
    if (document.activeElement !== this.#canvas && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? STEP : 1 / STEP, this.#at(event));
  }
}

function median(values) {
  const ranked = Float64Array.from(values).sort();
  return ranked.length ? ranked[ranked.length >> 1] : 0;
}

function limits(values, margin = 0.05) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high >= low)) [low, high] = [0, 0];
  const more = margin ? Math.max(margin * (high - low), 0.05) : 0;
  return [low - more, high + more];
}

function signed(value) {
  return value === 0 ? "0" : `${value < 0 ? "−" : ""}${readable("distance_s", Math.abs(value))}`;
}

/** The outline of a point. */
function outline(ctx, shape, size) {
  const corners = {
    triangle: [[0, -1], [0.95, 0.75], [-0.95, 0.75]],
    down: [[0, 1], [0.95, -0.75], [-0.95, -0.75]],
    square: [[-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]],
    diamond: [[0, -1.1], [0.9, 0], [0, 1.1], [-0.9, 0]],
    plus: [[-0.35, -1], [0.35, -1], [0.35, -0.35], [1, -0.35], [1, 0.35], [0.35, 0.35], [0.35, 1], [-0.35, 1], [-0.35, 0.35], [-1, 0.35], [-1, -0.35], [-0.35, -0.35]],
    star: Array.from({ length: 10 }, (_, number) => {
      const [angle, far] = [(number * Math.PI) / 5, number % 2 ? 0.45 : 1.1];
      return [far * Math.sin(angle), -far * Math.cos(angle)];
    }),
  };
  corners.cross = corners.plus.map(([x, y]) => [0.7071 * (x - y), 0.7071 * (x + y)]);
  ctx.beginPath();
  if (shape === "circle") ctx.arc(0, 0, size, 0, 2 * Math.PI);
  else {
    for (const [x, y] of corners[shape]) ctx.lineTo(size * x, size * y);
    ctx.closePath();
  }
}

customElements.define("laggard-scatter", Scatter);
