/** Pools: members that deviate from the others, from the top down (S3). */

import { get, Refusal } from "../api.js";
import { duration, printable, readable, score, usual } from "../format.js";
import { live } from "../packages/lit-html/directives/live.js";
import { html, nothing } from "../packages/lit-html/lit-html.js";
import { sentence } from "../sentence.js";
import { number, stretch } from "../state.js";
import { time } from "../time.js";
import { clusterOf, dendrogram, namesOf, narrow, support } from "./pools/dendrogram.js";

/** The number of features per outlier. */
const SHOWN = 4;

export default class View {
  #focused;
  #shown = "";
  #changed = () => this.page.update();

  constructor(page) {
    this.page = page;
    narrow.addEventListener("change", this.#changed);
  }

  leave() {
    narrow.removeEventListener("change", this.#changed);
  }

  /** A past moment does not change. */
  get topics() {
    return number(this.page.params, "at") === undefined ? ["pools", "anomalies"] : [];
  }

  async load(signal) {
    const { pool } = this.page.params;
    const at = number(this.page.params, "at");
    if (!pool) {
      this.pools = await get("/pools", { at }, signal);
      this.pool = this.series = undefined;
      return;
    }
    const shown = JSON.stringify([pool, at, this.page.params.level]);
    if (shown !== this.#shown) {
      this.pool = this.series = this.refused = this.#focused = undefined;
      this.#shown = shown;
      this.page.update();
    }
    this.pool = await get("/pools/pool", { pool, at }, signal);
    this.page.update();
    const { member, with: other, metric: feature } = this.page.params;
    const chosen = member === undefined ? this.#worst() : { member, with: other };
    const asked = { pool, at, level: this.#path(), ...chosen, feature, ...stretch(this.page.params) };
    try {
      this.series = await get("/pools/series", asked, signal);
      this.refused = undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // The pool remains visible without a member that has ended.
      this.series = undefined;
      this.refused = error;
    }
  }

  shows() {
    return this.page.params.pool ? this.pool !== undefined : this.pools !== undefined;
  }

  render() {
    const { pool } = this.page.params;
    if (pool) return this.pool ? this.#one() : html`<h1>${printable(pool)}</h1><p class="muted">Comparing its members…</p>`;
    return this.pools ? this.#all() : html`<h1>Pools</h1>`;
  }

  /** The default selection: the worst outlier of the level. */
  #worst() {
    const level = this.#level();
    const path = this.#path();
    const labels = new Set(level?.leaves.map((leaf) => leaf.label));
    const worst = this.pool.ranking.find((each) => each.level === path && labels.has(each.rows[0]));
    return worst ? { member: worst.rows[0] } : {};
  }

  #level() {
    const { level } = this.page.params;
    return level === undefined ? this.pool.levels[0] : this.pool.levels.find((each) => each.path === level);
  }

  /** The path of the visible level; empty at the top. */
  #path() {
    return this.page.params.level ?? this.#level()?.path ?? "";
  }

  // All of them.

  #all() {
    const { pools, ts, hint } = this.pools;
    if (!pools.length) {
      return html`<section class="empty">
        <h1>No pools ${this.page.params.at ? "at this moment" : "yet"}</h1>
        <p>The members of a pool should behave alike: threads, prefork workers, replicas, hosts. laggard compares them, and reports outliers.</p>
        <p>${sentence(hint)}.</p>
      </section>`;
    }
    return html`<h1>Pools</h1>
      <p class="muted">Pools and their outliers${this.#back(html` at ${time(ts)}`)}.</p>
      <section class="card scrolls" tabindex="0" role="region" aria-label="Pools">
        <table>
          <thead>
            <tr>
              <th scope="col">Pool</th><th scope="col" class="number">Members</th><th scope="col">Worst outlier</th>
              <th scope="col" class="number">Score</th><th scope="col">Since</th><th scope="col">Newest data</th>
            </tr>
          </thead>
          <tbody>${pools.map((pool) => this.#row(pool, ts))}</tbody>
        </table>
      </section>`;
  }

  #row(pool, now) {
    const worst = pool.deviating.find((each) => !each.harmless);
    const more = pool.deviating.filter((each) => !each.harmless).length - 1;
    return html`<tr>
      <th scope="row"><a href=${this.page.href("/pools", { pool: pool.pool, at: this.page.params.at })}>${pool.name}</a></th>
      <td class="number">${pool.members ?? "-"}</td>
      <td>${worst ? html`<strong class="alarm">${worst.name}</strong> ${worst.kind}${more > 0 ? html` <span class="muted">and ${more} more</span>` : nothing}` : html`<span class="muted">none</span>`}</td>
      <td class="number">${worst ? score(worst.score) : "-"}</td>
      <td class="pools-ts">${worst ? time(worst.begin_ts) : "-"}</td>
      <td>${pool.ts === null ? "-" : time(pool.ts, true)}${pool.silent ? html` <span class="badge">no data${pool.ts === null ? "" : ` for ${duration(now - pool.ts)}`}</span>` : nothing}</td>
    </tr>`;
  }

  /** A link to now, at another moment. */
  #back(text = nothing) {
    if (number(this.page.params, "at") === undefined) return nothing;
    return html`${text} (<a href=${this.#here({ at: undefined, from: undefined, to: undefined })}>now</a>)`;
  }

  // One of them.

  #one() {
    const { name, ts, members, belief, ranking, sentences, levels } = this.pool;
    const level = this.#level();
    const path = this.#path();
    return html`<p><a href=${this.page.href("/pools", { at: this.page.params.at })}>All pools</a></p>
      <h1>${name}</h1>
      <p class="muted">${members} ${members === 1 ? "member" : "members"} at ${time(ts)}${this.#back()}. ${belief}</p>
      <section class="card" aria-labelledby="pools-ranking">
        <h2 id="pools-ranking">Outliers</h2>
        ${ranking.length ? html`<ol class="pools-ranking">${ranking.map((each) => this.#deviating(each))}</ol>` : html`<p>${sentences[0]}</p>`}
      </section>
      <div class="pools-beside">
        <section class="card" aria-labelledby="pools-dendrogram">
          <h2 id="pools-dendrogram">${level?.heading ?? `Inside ${path || "the pool"}`}</h2>
          ${this.#levels(levels, path)}
          ${level ? this.#tree(level) : html`<p>${this.#undrawn(path)}</p>`}
        </section>
        <section class="card" aria-labelledby="pools-series">${this.#chart(level, path)}</section>
      </div>`;
  }

  #undrawn(path) {
    if (path) return "No dendrogram: none of these members deviates from the others. The chart shows their series.";
    return "No dendrogram yet: it requires three members that have been compared for some time.";
  }

  #deviating(each) {
    const chosen = { level: each.level || undefined, member: each.rows[0], with: undefined };
    const shown = each.features.slice(0, SHOWN);
    return html`<li>
      <span class="badge ${each.harmless ? "" : "culprit"}">${score(each.score)}</span>
      <a href=${this.#here(chosen)}>${each.name}</a>
      <span class="pools-sentence">${sentence(each.sentence)}</span>
      ${each.p_value === null ? nothing : html`<span class="muted">Merges with the others at height ${each.height?.toPrecision(3)}; ${support(each)}.</span>`}
      ${shown.length
        ? html`<ul class="pools-features">
            ${shown.map(
              (feature) => html`<li>
                <a href=${this.#here({ ...chosen, metric: feature.feature })}>${feature.feature}</a>
                <strong>${readable(feature.feature, feature.value)}</strong>
                ${feature.mean === null ? nothing : html`<span class="muted">pool: ${usual(feature.feature, feature.mean, feature.standard_deviation)}</span>`}
              </li>`,
            )}
          </ul>`
        : nothing}
    </li>`;
  }

  #here(params) {
    return this.page.href("/pools", { ...this.page.params, ...params });
  }

  #levels(levels, path) {
    const known = levels.some((each) => each.path === path) ? levels : [...levels, { path, heading: `Inside ${path}` }];
    if (known.length < 2) return nothing;
    return html`<p class="pools-levels">
      ${known.map((each) =>
        each.path === path
          ? html`<strong>${each.path || "The pool"}</strong>`
          : html`<a href=${this.#down(each.path)}>${each.path || "The pool"}</a>`,
      )}
    </p>`;
  }

  #down(path) {
    return this.#here({ level: path || undefined, member: undefined, with: undefined });
  }

  #tree(level) {
    const { member, with: other } = { ...this.#worst(), ...this.page.params };
    const chosen = member ? clusterOf(level, member, member === this.page.params.member ? other : undefined) : undefined;
    const pick = (picked) => {
      this.#focused = picked;
      this.page.go(namesOf(level, picked));
    };
    const focus = (next) => {
      this.#focused = next;
      this.page.update();
      document.querySelector(`.pools-tree [data-node="${next}"]`)?.focus();
    };
    const merge = chosen === undefined ? undefined : level.merges[chosen - level.leaves.length];
    const leaf = chosen === undefined ? undefined : level.leaves[chosen];
    return html`<label class="pools-heights">
        <input type="checkbox" .checked=${live(this.page.params.heights === "root")} @change=${(event) => this.page.go({ heights: event.target.checked ? "root" : undefined })} />
        square roots of heights, which spread low merges
      </label>
      <div class="scrolls pools-scrolls" tabindex="0" role="region" aria-label="Dendrogram">
        ${dendrogram(level, { chosen, focused: this.#focused, root: this.page.params.heights === "root", pick, focus })}
      </div>
      <p class="pools-chosen">
        ${merge ? html`Cluster of ${merge.members}, merged at height ${merge.height?.toPrecision(3)}; ${support(merge)}.` : nothing}
        ${leaf?.path ? html`<a href=${this.#down(leaf.path)}>Inside ${leaf.name}</a>: ${leaf.compared ? "its members, compared with each other" : "its members, without outliers"}.` : nothing}
        ${leaf && leaf.members > 1 ? html`The dendrogram groups ${leaf.name}.` : nothing}
      </p>
      ${level.merges.some((each) => each.p_value !== null)
        ? html`<p class="muted">Numbers are approximately unbiased (au) p-values in percent. Filled circle: 95 or more, the data support the cluster. Hollow: less.</p>`
        : nothing}`;
  }

  // Series.

  #chart(level, path) {
    const series = this.series;
    if (!series) {
      const text = this.refused ? html`${this.refused.message}. Expected: ${this.refused.expected}.` : "Loading…";
      return html`<h2 id="pools-series">Series</h2><p class="muted">${text}</p>`;
    }
    const { lines, chosen, others, all_members: everybody, feature, ts } = series;
    const one = chosen === 1 && lines.length ? lines[0].name : `${chosen} of ${chosen + others}`;
    const heading = everybody ? `All ${chosen}` : `${one} beside the ${others === 1 ? "other" : `${others} others`}`;
    const { from, to } = stretch(this.page.params);
    const at = number(this.page.params, "at");
    const rest = { label: everybody ? "median" : "median of the others", values: series.median, dashed: true };
    const chart = { feature, ts, lines: [...lines.map(({ name, values }) => ({ label: name, values })), rest], band: { low: series.low, high: series.high }, moment: at, from, to };
    const offered = this.pool.features.includes(feature) ? this.pool.features : [feature, ...this.pool.features];
    return html`<h2 id="pools-series">${heading}</h2>
      <p>
        <label>Metric
          <select @change=${(event) => this.page.go({ metric: event.target.value })}>
            ${offered.map((each) => html`<option value=${each} ?selected=${each === feature}>${each}</option>`)}
          </select>
        </label>
      </p>
      ${ts.length
        ? html`<laggard-chart
              .chart=${chart}
              .label=${`${feature} of ${heading}, means of ${duration(series.bin_s)}`}
              .height=${300}
              @pick=${(event) => this.page.go({ at: event.detail.ts })}
              @range=${(event) => this.page.go({ from: Math.round(event.detail.from), to: Math.round(event.detail.to) })}
            ></laggard-chart>
            <p class="muted">
              Means of ${duration(series.bin_s)}. Dashed: ${rest.label}; band: the middle half of ${everybody ? "all" : "the others"}.
              ${lines.length < chosen ? html`Lines: the ${lines.length} of ${chosen} members farthest from the median.` : nothing}
              ${from === undefined ? html`Drag to zoom in; click to show that moment.` : html`<a href=${this.#here({ from: undefined, to: undefined })}>Show all</a>`}
            </p>`
        : html`<p>No data in this time.</p>`}`;
  }
}
