/** A dendrogram: leaves below each other, heights to the right, and p-values at the merges. */

import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";

const ROW = 24;
const TOP = 34;
/** The width of a character in pixels, plain and bold. */
const CHARACTER = { plain: 7.1, bold: 8 };
const WIDE = { tree: 300, label: 26 };
const NARROW = { tree: 150, label: 15 };

/** From this p-value on, in percent, the data support a cluster. */
const SUPPORTED = 95;

/** Whether the drawing is small. */
export const narrow = window.matchMedia("(max-width: 700px)");

/** The leaves of a cluster, or the leaf itself, as numbers. */
function leavesOf(level, number) {
  return below(level, number).filter((each) => each < level.leaves.length);
}

/** The smallest cluster with both of these leaves, by their labels; undefined if one is missing. */
export function clusterOf(level, first, second = first) {
  const find = (label) => level.leaves.findIndex((leaf) => leaf.label === label);
  const wanted = [find(first), find(second)];
  if (wanted.includes(-1)) return undefined;
  for (let number = 0; number < level.leaves.length + level.merges.length; number++) {
    const leaves = new Set(leavesOf(level, number));
    if (wanted.every((leaf) => leaves.has(leaf))) return number;
  }
  return undefined;
}

/** Two leaves that identify a cluster as the smallest one with both. A leaf identifies itself. */
export function namesOf(level, number) {
  const count = level.leaves.length;
  if (number < count) return { member: level.leaves[number].label, with: undefined };
  const { first, second } = level.merges[number - count];
  return { member: level.leaves[leavesOf(level, first)[0]].label, with: level.leaves[leavesOf(level, second)[0]].label };
}

const percent = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });

/** The p-value of a merge, with its meaning. */
export function support(merge) {
  if (merge.p_value === null) return "no p-value";
  const text = merge.p_value >= SUPPORTED ? "the data support it" : "the data do not support it well";
  return `au p-value ${percent(merge.p_value)} %: ${text}`;
}

/**
 * Draw the dendrogram. Tab reaches one of its parts, the arrow keys the others.
 *
 * @param {object} level from the API
 * @param {{chosen: number|undefined, focused: number|undefined, root: boolean, pick: (number: number) => void,
 *   focus: (number: number) => void}} state the selected cluster or leaf, the focused one, and whether heights are
 *   drawn by their square roots, which spread low merges
 */
export function dendrogram(level, { chosen, focused, root, pick, focus }) {
  const size = narrow.matches ? NARROW : WIDE;
  const labels = level.leaves.map((leaf) => shortened(leaf.name, size.label));
  const notes = level.leaves.map((leaf) => (leaf.note ? `${leaf.note}${leaf.deviating ? (leaf.harmless ? " ○" : " ●") : ""}` : ""));
  const wide = (label, note) => (note ? (label.length + note.length + 1) * CHARACTER.bold : label.length * CHARACTER.plain);
  const left = 14 + Math.max(...labels.map((label, number) => wide(label, notes[number])));
  const share = (height) => (level.highest > 0 ? height / level.highest : 0);
  const x = (height) => left + (root ? Math.sqrt(share(height)) : share(height)) * size.tree;
  const y = (place) => TOP + (place + 0.5) * ROW;
  const count = level.leaves.length;
  const node = (number) =>
    number < count
      ? { x: x(level.leaves[number].height), y: y(level.leaves[number].place) }
      : { x: x(level.merges[number - count].height), y: y(level.merges[number - count].place) };
  const inside = new Set(chosen === undefined ? [] : below(level, chosen));
  const stop = focused ?? chosen ?? 0;
  const part = (number) => ({
    number,
    chosen: chosen === number,
    inside: inside.has(number),
    stop: stop === number,
    picked: () => pick(number),
    pressed: (event) => pressed(event, level, number, { pick, focus }),
  });
  const parents = parentsOf(level);
  const labeled = values(level, node);
  const width = left + size.tree + 46;
  return html`<svg
    class="pools-tree"
    role="group"
    aria-label="Dendrogram of ${count} leaves. Arrow keys move between them, Enter shows one."
    width=${width}
    height=${TOP + count * ROW + 8}
  >
    ${axis(level, x, TOP + count * ROW)}
    ${level.merges.map((merge, number) => mergeOf(merge, part(count + number), { node, x, labeled }))}
    ${level.leaves.map((leaf, number) => leafOf(leaf, part(number), { label: labels[number], note: notes[number], left, x, node, until: x(parents[number]?.height ?? 0) }))}
  </svg>`;
}

function axis(level, x, bottom) {
  return svg`<g class="pools-axis" aria-hidden="true">
    <text x=${x(0)} y="10">height</text>
    ${level.ticks.map((tick) => svg`<path d="M${x(tick)} ${TOP - 4}V${bottom}"></path><text x=${x(tick)} y=${TOP - 8} text-anchor="middle">${tick.toLocaleString("en-US", { maximumSignificantDigits: 4 })}</text>`)}
  </g>`;
}

function mergeOf(merge, part, { node, x, labeled }) {
  const [first, second] = [node(merge.first), node(merge.second)];
  const at = x(merge.height);
  const { y } = node(part.number);
  const path = `M${first.x} ${first.y}H${at}V${second.y}H${second.x}`;
  const supported = merge.p_value !== null && merge.p_value >= SUPPORTED;
  const text = `Cluster of ${merge.members}, merged at height ${merge.height?.toPrecision(3)}; ${support(merge)}`;
  return svg`<g
    class=${part.inside ? "pools-merge inside" : "pools-merge"}
    role="button"
    tabindex=${part.stop ? 0 : -1}
    data-node=${part.number}
    aria-pressed=${part.chosen}
    aria-label=${text}
    @click=${part.picked}
    @keydown=${part.pressed}
  >
    <title>${text}</title>
    <path class="pools-wide" d=${path}></path>
    <path d=${path}></path>
    <circle class=${supported ? "supported" : ""} cx=${at} cy=${y} r="4.5"></circle>
    ${labeled.has(part.number) ? svg`<text x=${at + 8} y=${y - 4} class=${supported ? "supported" : ""}>${rounded(merge.p_value)}</text>` : nothing}
  </g>`;
}

function leafOf(leaf, part, { label, note, left, x, node, until }) {
  const { y } = node(part.number);
  const begin = x(leaf.height);
  const kind = leaf.deviating ? (leaf.harmless ? " younger" : " deviating") : "";
  const text = leaf.note ? `${leaf.name}: ${leaf.note}` : leaf.name;
  return svg`<g
    class=${`pools-leaf${kind}${part.inside ? " inside" : ""}`}
    role="button"
    tabindex=${part.stop ? 0 : -1}
    data-node=${part.number}
    aria-pressed=${part.chosen}
    aria-label=${text}
    @click=${part.picked}
    @keydown=${part.pressed}
  >
    <title>${text}</title>
    <rect class="pools-wide" x="0" y=${y - ROW / 2} width=${left} height=${ROW}></rect>
    <text x=${left - 8} y=${y + 4} text-anchor="end">${label}${note ? svg`<tspan class="pools-note" dx="6">${note}</tspan>` : nothing}</text>
    ${leaf.members > 1 ? svg`<path class="pools-folded" d="M${x(0)} ${y - 6}V${y + 6}L${begin} ${y}Z"></path>` : nothing}
    <path d="M${begin} ${y}H${until}"></path>
  </g>`;
}

/** The merges with room for their p-values, the highest first. */
function values(level, node) {
  const count = level.leaves.length;
  const taken = [];
  const numbers = level.merges.map((_, number) => number).filter((number) => level.merges[number].p_value !== null);
  for (const number of numbers.reverse()) {
    const { x, y } = node(count + number);
    if (taken.every((other) => Math.abs(other.x - x) >= 30 || Math.abs(other.y - y) >= 13)) taken.push({ x, y, number });
  }
  return new Set(taken.map(({ number }) => count + number));
}

/** A cluster and all its parts, as numbers. */
function below(level, number) {
  const count = level.leaves.length;
  if (number < count) return [number];
  const { first, second } = level.merges[number - count];
  return [number, ...below(level, first), ...below(level, second)];
}

/** The merge that contains each leaf or cluster. */
function parentsOf(level) {
  const parents = [];
  level.merges.forEach((merge, number) => {
    parents[merge.first] = parents[merge.second] = { ...merge, number: level.leaves.length + number };
  });
  return parents;
}

function pressed(event, level, number, { pick, focus }) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    pick(number);
    return;
  }
  const count = level.leaves.length;
  const rows = level.leaves.map((leaf, at) => ({ at, place: leaf.place })).sort((a, b) => a.place - b.place);
  const leaves = leavesOf(level, number).sort((a, b) => level.leaves[a].place - level.leaves[b].place);
  const place = level.leaves[event.key === "ArrowDown" ? leaves.at(-1) : leaves[0]].place;
  const next = {
    ArrowUp: () => rows[Math.max(place - 1, 0)].at,
    ArrowDown: () => rows[Math.min(place + 1, count - 1)].at,
    ArrowRight: () => parentsOf(level)[number]?.number ?? number,
    ArrowLeft: () => (number < count ? number : level.merges[number - count].first),
    Home: () => rows[0].at,
    End: () => count + level.merges.length - 1,
  }[event.key];
  if (!next) return;
  event.preventDefault();
  focus(next());
}

/** Whole percent, but not rounded up to the level of support. */
function rounded(value) {
  return value < SUPPORTED && Math.round(value) >= SUPPORTED ? Math.floor(value * 10) / 10 : Math.round(value);
}

/** Shorten a label at its start, since the end distinguishes members. */
function shortened(label, most) {
  return label.length <= most ? label : `…${label.slice(label.length - most + 1)}`;
}
