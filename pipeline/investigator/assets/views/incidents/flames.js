/**
 * A flame graph (B. Gregg, CACM 59(6), 2016): functions above their callers, as wide as their share of samples.
 *
 * For the keyboard and screen readers it is a tree: the arrow keys move between functions, Enter zooms in, Escape shows
 * all.
 */

import { html, nothing, svg } from "../../packages/lit-html/lit-html.js";

const ROW = 18;

/** The narrowest visible box, in percent of the width; zooming shows narrower ones. */
const NARROWEST = 0.06;

/** The narrowest box with a label, in percent of the width. */
const LETTERS = 1.2;

const percent = (ratio) => `${(100 * ratio).toFixed(ratio < 0.1 ? 1 : 0)} %`;

export class Flames {
  #source;
  #boxes = [];
  #samples = 0;
  #focused = -1;

  /** `chosen(index)` is called with the box to zoom to; -1 for all. */
  constructor(chosen) {
    this.chosen = chosen;
  }

  /**
   * The drawing.
   *
   * @param {object} flames of an answer of /diagnosis
   * @param {number} zoomed the index of the box with the full width; -1 for all
   * @param {string} search a text to find in names
   * @param {string} label the accessible name
   */
  render(flames, zoomed, search, label) {
    this.#place(flames);
    const root = this.#boxes[zoomed] ?? { begin: 0, samples: this.#samples, below: -1 };
    const x = (box) => (100 * (box.begin - root.begin)) / root.samples;
    const shown = this.#boxes.filter(
      (box) =>
        (100 * box.samples) / root.samples >= NARROWEST && box.begin < root.begin + root.samples && box.begin + box.samples > root.begin,
    );
    if (!shown.some((box) => box.index === this.#focused)) this.#focused = shown.find((box) => box.below >= root.below)?.index ?? -1;
    const deepest = shown.reduce((most, box) => Math.max(most, box.below), 0);
    const height = (deepest + 1) * ROW;
    const found = search ? this.#found(search) : undefined;
    return html`
      <p class="muted" role="status">
        ${zoomed >= 0 && this.#boxes[zoomed]
          ? html`Zoomed to <strong>${this.#boxes[zoomed].label}</strong>, ${percent(root.samples / this.#samples)} of ${this.#samples} samples.
              <button type="button" @click=${() => this.chosen(-1)}>Show all</button>`
          : html`${this.#samples} samples.`}
        ${found ? html`${found.boxes.size} boxes match, ${percent(found.samples / this.#samples)} of the samples.` : nothing}
        ${flames.boxes_left_out ? html`${flames.boxes_left_out} more boxes are too narrow to draw.` : nothing}
      </p>
      <svg
        class="incidents-flames"
        width="100%"
        height=${height}
        role="tree"
        aria-label=${label}
        @click=${(event) => this.#clicked(event)}
        @keydown=${(event) => this.#pressed(event, zoomed)}
        @focusin=${(event) => this.#focus(event)}
      >
        ${shown.map((box) => {
          const left = Math.max(x(box), 0);
          const width = Math.min(x(box) + (100 * box.samples) / root.samples, 100) - left;
          const text = `${box.label}: ${box.samples} ${box.samples === 1 ? "sample" : "samples"}, ${percent(box.samples / this.#samples)}`;
          const kind = found ? (found.boxes.has(box.index) ? "found" : "faint") : box.below < root.below ? "faint" : "";
          return svg`<g role="treeitem" aria-level=${box.below + 1} aria-label=${text} data-index=${box.index} tabindex=${box.index === this.#focused ? 0 : -1}>
            <title>${text}${box.module ? `\n${box.module}` : ""}</title>
            <svg x="${left}%" y=${height - (box.below + 1) * ROW} width="${width}%" height=${ROW} aria-hidden="true">
              <rect class=${kind} width="100%" height=${ROW - 1} rx="1" fill=${box.fill}></rect>
              ${width >= LETTERS ? svg`<text x="3" y="13">${box.label}</text>` : nothing}
            </svg></g>`;
        })}
      </svg>
    `;
  }

  #place({ boxes, samples }) {
    if (this.#source === boxes) return;
    this.#source = boxes;
    this.#samples = samples;
    this.#boxes = boxes.map((box, index) => ({ ...box, index }));
    this.#focused = -1;
  }

  /** The boxes whose names contain the text, and their samples in sum, each sample once. */
  #found(search) {
    const wanted = search.toLowerCase();
    const boxes = new Set();
    let samples = 0;
    const covered = [];
    for (const box of this.#boxes) {
      if (!box.label.toLowerCase().includes(wanted)) continue;
      boxes.add(box.index);
      if (covered.some((each) => box.begin >= each.begin && box.begin < each.begin + each.samples)) continue;
      covered.push(box);
      samples += box.samples;
    }
    return { boxes, samples };
  }

  #clicked(event) {
    const index = indexOf(event);
    if (index !== undefined) this.#zoom(index);
  }

  /** Zoom to a box, and keep the focus on it. */
  #zoom(index) {
    this.#focused = index;
    this.chosen(index);
  }

  #focus(event) {
    const index = indexOf(event);
    if (index !== undefined) this.#focused = index;
  }

  #pressed(event, zoomed) {
    const here = this.#boxes[this.#focused];
    if (!here) return;
    const tree = event.currentTarget;
    const drawn = (box) => tree.querySelector(`[data-index="${box.index}"]`);
    const beside = this.#boxes.filter((box) => box.below === here.below && drawn(box)).sort((a, b) => a.begin - b.begin);
    const place = beside.indexOf(here);
    const above = this.#boxes.filter((box) => box.below === here.below + 1 && box.begin >= here.begin && box.begin < here.begin + here.samples);
    const below = this.#boxes.find((box) => box.below === here.below - 1 && box.begin <= here.begin && box.begin + box.samples > here.begin);
    const next = {
      ArrowUp: () => above.filter(drawn).sort((a, b) => b.samples - a.samples)[0],
      ArrowDown: () => below,
      ArrowLeft: () => beside[place - 1],
      ArrowRight: () => beside[place + 1],
    }[event.key];
    if (next) {
      event.preventDefault();
      const box = next();
      if (box) this.#move(tree, box.index);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#zoom(here.index);
    } else if (event.key === "Escape" && zoomed >= 0) {
      event.preventDefault();
      this.chosen(-1);
    }
  }

  #move(tree, index) {
    tree.querySelector(`[data-index="${this.#focused}"]`)?.setAttribute("tabindex", "-1");
    this.#focused = index;
    const box = tree.querySelector(`[data-index="${index}"]`);
    box?.setAttribute("tabindex", "0");
    box?.focus();
  }
}

/** The index of an event's box; undefined without one. */
function indexOf({ target }) {
  const box = target.closest("[data-index]");
  return box ? Number(box.dataset.index) : undefined;
}

/** The functions of the flame graph as a table, by their own share of samples. */
export function functionsTable({ functions, functions_left_out, samples }) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Functions of the flame graph">
    <table>
      <thead>
        <tr><th scope="col">Function</th><th scope="col" class="number">Self</th><th scope="col" class="number">Total</th></tr>
      </thead>
      <tbody>
        ${functions.map(
          (each) =>
            html`<tr>
              <th scope="row"><code>${each.label}</code></th>
              <td class="number">${percent(each.own / samples)}</td>
              <td class="number">${percent(each.samples / samples)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${functions_left_out ? html`<p class="muted">and ${functions_left_out} more</p>` : nothing}
  </div>`;
}
