/** The pipeline: lag, dead letters, topics, and the cost of laggard. */

import { get, post, Refusal, unlessMissing } from "../api.js";
import { duration, readable } from "../format.js";
import { html, nothing } from "../packages/lit-html/lit-html.js";
import { time } from "../time.js";

const count = (value) => (value === null || value === undefined ? "-" : value.toLocaleString("en-US"));
const rate = (value) => (value === 0 ? "0" : readable("records", value));

/** The lag in seconds from which on it is highlighted. */
const LATE_S = 10;

export default class View {
  topics = ["counters", "applications", "pools", "requests", "anomalies", "dead_letters"];
  #sending = false;

  constructor(page) {
    this.page = page;
  }

  async load(signal) {
    const { host, row, metric, letter } = this.page.params;
    const [pipeline, topics, letters, cost, open, series] = await Promise.all([
      get("/pipeline", {}, signal),
      get("/pipeline/topics", {}, signal),
      get("/pipeline/letters", {}, signal),
      unlessMissing(get("/pipeline/cost", { host }, signal)),
      isName(letter) ? unlessMissing(get("/pipeline/letter", placeOf(letter), signal)) : undefined,
      row ? unlessMissing(get("/series", { host, row, feature: metric ?? "cpu_user_ratio" }, signal)) : undefined,
    ]);
    this.data = { pipeline, topics: topics.topics, letters, cost, open, series };
  }

  shows() {
    return this.data !== undefined;
  }

  render() {
    if (!this.data) return html`<h1>Pipeline</h1>`;
    return html`<h1>Pipeline</h1>
      ${this.#summary()}
      <div class="pipeline-cards">
        <section class="card" aria-labelledby="pipeline-tasks">${this.#tasks()}</section>
        <section class="card" aria-labelledby="pipeline-letters">${this.#letters()}</section>
        ${this.page.params.letter ? html`<section class="card" aria-labelledby="pipeline-letter">${this.#letter()}</section>` : nothing}
        <section class="card" aria-labelledby="pipeline-topics">${this.#topics()}</section>
        <section class="card" aria-labelledby="pipeline-cost">${this.#cost()}</section>
      </div>
      ${this.#dialog()}`;
  }

  #summary() {
    const { tasks, worker, bus } = this.data.pipeline;
    const sum = (name) => tasks.reduce((total, task) => total + (task[name] ?? 0), 0);
    const waits = Math.max(0, ...tasks.map((task) => task.lag_s ?? 0));
    const recovering = tasks.filter((task) => task.recovery_left_records > 0).length;
    const text = worker
      ? html`PID ${worker.pid} on this machine, since ${time(worker.since)}${worker.answers ? nothing : html`; <strong class="alarm">not responding</strong>`}`
      : html`none on this machine; if none runs elsewhere, start one with <code>laggard up</code> or <code>laggard work</code>`;
    return html`<dl class="pipeline-numbers">
        <div><dt>Lag, records</dt><dd class=${waits > LATE_S ? "alarm" : ""}>${count(sum("lag_records"))}${waits >= 1 ? html` <small>oldest: ${duration(waits)}</small>` : nothing}</dd></div>
        <div><dt>Records per second</dt><dd>${rate(sum("records_per_s"))}</dd></div>
        <div><dt>Dead letters</dt><dd>${count(this.data.letters.there)}</dd></div>
        <div><dt>Recovering</dt><dd>${count(recovering)}</dd></div>
      </dl>
      <p class="muted">Bus: <code>${bus}</code>. Worker: ${text}.</p>`;
  }

  // Tasks.

  #tasks() {
    const { tasks, ts } = this.data.pipeline;
    return html`<h2 id="pipeline-tasks">Tasks</h2>
      <div class="scrolls" tabindex="0" role="region" aria-label="Tasks, table">
        <table>
          <thead>
            <tr>
              <th scope="col">Operator</th><th scope="col">Partition</th><th scope="col">Worker</th>
              <th scope="col" class="number">Position</th><th scope="col" class="number">Lag, records</th><th scope="col" class="number">Lag, time</th>
              <th scope="col" class="number">Records per second</th><th scope="col">State</th><th scope="col">Newest snapshot</th>
            </tr>
          </thead>
          <tbody>
            ${tasks.map(
              (task) => html`<tr>
                <th scope="row">${task.operator}</th>
                <td>${task.topic}[${task.partition}]</td>
                <td>${task.member || html`<span class="muted">not known</span>`}</td>
                <td class="number">${count(task.position)} <span class="muted">of ${count(task.end)}</span></td>
                <td class="number">${count(task.lag_records)}${task.missed_records ? html` <strong class="alarm">${count(task.missed_records)} missed</strong>` : nothing}</td>
                <td class=${task.lag_s > LATE_S ? "number alarm" : "number"}>${task.lag_records ? (task.lag_s === null ? "-" : duration(task.lag_s)) : "-"}</td>
                <td class="number">${rate(task.records_per_s)}</td>
                <td>${state(task)}</td>
                <td>${snapshot(task, ts)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>`;
  }

  // Dead letters.

  #letters() {
    const { there, letters } = this.data.letters;
    if (!there) return html`<h2 id="pipeline-letters">Dead letters</h2><p>None: all records are usable.</p>`;
    return html`<h2 id="pipeline-letters">Dead letters</h2>
      <p class="muted">Unusable records, unchanged. Each operator that rejects a record adds a letter${letters.length < there ? `; these are the newest ${letters.length} of ${count(there)}` : ""}.</p>
      <div class="scrolls pipeline-list" tabindex="0" role="region" aria-label="Dead letters, table">
        <table>
          <thead>
            <tr><th scope="col">Record</th><th scope="col">Time</th><th scope="col">Key</th><th scope="col">Reason</th><th scope="col">Rejected by</th></tr>
          </thead>
          <tbody>
            ${byRecord(letters).map((one) => {
              const open = one.some((each) => nameOf(each) === this.page.params.letter);
              return html`<tr class=${open ? "chosen" : ""}>
                <th scope="row"><a href=${this.#here({ letter: nameOf(one[0]) })} aria-current=${open ? "true" : nothing}>${one[0].place}</a></th>
                <td>${time(one[0].ts)}</td>
                <td class="pipeline-wraps">${one[0].key}</td>
                <td class="pipeline-wraps pipeline-reason">${one[0].reason}${one[0].replay_of ? html` <span class="badge">rejected again</span>` : nothing}</td>
                <td>${one.map((each, index) => html`${index ? ", " : ""}<a href=${this.#here({ letter: nameOf(each) })}>${each.operator}</a>`)}</td>
              </tr>`;
            })}
          </tbody>
        </table>
      </div>`;
  }

  #letter() {
    const { open } = this.data;
    const close = html`<a class="button" href=${this.#here({ letter: undefined })}>Close</a>`;
    if (!open) {
      return html`<h2 id="pipeline-letter">Dead letter ${this.page.params.letter}</h2>
        <p>This dead letter no longer exists. Their retention is one week.</p>
        <p>${close}</p>`;
    }
    const { letter } = open;
    return html`<h2 id="pipeline-letter">${letter.place}</h2>
      <p><strong>${letter.operator}</strong> rejected it: ${letter.reason}</p>
      <p class="muted">
        Key <code>${letter.key}</code>, ${count(letter.bytes)} bytes, of ${time(letter.ts)}.
        ${letter.replay_of ? html`Replay of <code>${letter.replay_of}</code>, rejected again.` : nothing}
      </p>
      <p class="pipeline-actions">${this.#again(open)} ${close}</p>
      ${open.wrong ? html`<p>Not a valid record of laggard: ${open.wrong}</p>` : nothing}
      ${open.headers.length
        ? html`<h3>Headers</h3>
            <ul>${open.headers.map((each) => html`<li><code>${each.name}: ${each.value}</code></li>`)}</ul>`
        : nothing}
      ${open.decoded ? html`<h3>Content</h3><pre tabindex="0" role="region" aria-label="Content">${open.decoded}</pre>` : nothing}
      <h3>${open.shown_bytes < letter.bytes ? `First ${count(open.shown_bytes)} bytes` : "Bytes"}</h3>
      <details ?open=${!open.decoded}>
        <summary>As text</summary>
        <pre tabindex="0" role="region" aria-label="As text">${open.text}</pre>
      </details>
      <details ?open=${!open.decoded}>
        <summary>In hexadecimal digits</summary>
        <pre tabindex="0" role="region" aria-label="In hexadecimal digits">${open.hex}</pre>
      </details>`;
  }

  #again({ replayable, replayed_ts: sent, returned }) {
    if (replayable) return html`<span class="muted">Cannot replay: ${replayable}.</span>`;
    if (sent !== null) {
      const back = returned && nameOf(returned);
      return html`<span>
        Replayed at ${time(sent)};
        ${back ? html`<strong class="alarm">rejected again</strong> as <a href=${this.#here({ letter: back })}>${returned.place}</a>: ${returned.reason}` : "not rejected again."}
      </span>`;
    }
    if (!this.page.cluster.writes) return html`<span class="muted">Replaying requires write access.</span>`;
    return html`<button @click=${() => document.querySelector("#pipeline-replay").showModal()}>Replay</button>`;
  }

  #dialog() {
    const { open } = this.data;
    if (!open) return nothing;
    const close = () => document.querySelector("#pipeline-replay")?.close();
    return html`<dialog id="pipeline-replay" aria-labelledby="pipeline-replay-title">
      <h2 id="pipeline-replay-title">Replay this record?</h2>
      <p>
        Appends the record to <code>${open.letter.topic}</code> again, under its key <code>${open.letter.key}</code>. All operators of the
        topic process it, including those that accepted it before. If the cause persists, it becomes another dead letter. A record can be
        replayed only once.
      </p>
      <p class="pipeline-actions">
        <button class="first" ?disabled=${this.#sending} @click=${() => this.#send(close)}>Replay</button>
        <button @click=${close}>Cancel</button>
      </p>
    </dialog>`;
  }

  async #send(close) {
    if (this.#sending) return;
    this.#sending = true;
    this.page.update();
    try {
      const { topic } = await post("/pipeline/replays", placeOf(this.page.params.letter));
      this.page.notify(`Replayed to ${topic}.`);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.page.notify(error.text, "error");
    } finally {
      this.#sending = false;
    }
    close();
    await this.page.reload();
  }

  // Topics.

  #topics() {
    return html`<h2 id="pipeline-topics">Topics</h2>
      <div class="scrolls" tabindex="0" role="region" aria-label="Topics, table">
        <table>
          <thead>
            <tr>
              <th scope="col">Topic</th><th scope="col">Content</th><th scope="col" class="number">Partitions</th><th scope="col" class="number">Records</th>
              <th scope="col" class="number">Size, approx.</th><th scope="col">Retention</th><th scope="col">Oldest</th><th scope="col">Newest</th>
            </tr>
          </thead>
          <tbody>
            ${this.data.topics.map(
              (topic) => html`<tr>
                <th scope="row">${topic.name}</th>
                <td class="pipeline-wraps">${topic.holds}${topic.differences.map((each) => html`<br /><strong class="alarm">${each}</strong>`)}</td>
                <td class="number">${count(topic.partitions)}</td>
                <td class="number">${count(topic.records)}</td>
                <td class="number">${readable("size_bytes", topic.bytes)}</td>
                <td>${topic.compacted ? "newest of each key" : topic.retention_s === null ? "-" : duration(topic.retention_s)}</td>
                <td>${time(topic.oldest_ts)}</td>
                <td>${time(topic.newest_ts)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>`;
  }

  // Cost.

  #cost() {
    const { cost } = this.data;
    if (!cost?.parts.length) {
      return html`<h2 id="pipeline-cost">Cost</h2>
        <p>No processes of laggard are recorded${cost ? html` on ${cost.host}` : nothing}. <code>laggard up</code> records this machine, including itself.</p>`;
    }
    const sum = (name) => cost.parts.reduce((total, part) => total + (part[name] ?? 0), 0);
    const cell = (part, feature, text) => html`<a href=${this.#here({ row: part.row, metric: feature })} aria-label=${`${text}, ${feature} of ${part.row} over time`}>${text}</a>`;
    return html`<h2 id="pipeline-cost">Cost</h2>
      <p class="muted">laggard's own processes on ${cost.host} at ${time(cost.ts)}. 100 % is one core.</p>
      <div class="scrolls" tabindex="0" role="region" aria-label="Cost, table">
        <table>
          <thead>
            <tr><th scope="col">Process</th><th scope="col" class="number">CPU</th><th scope="col" class="number">Memory</th><th scope="col">Command</th></tr>
          </thead>
          <tbody>
            ${cost.parts.map(
              (part) => html`<tr>
                <th scope="row">${part.row.split("@")[0]}${part.row.includes("@") ? "]" : ""}</th>
                <td class="number">${cell(part, "cpu_user_ratio", readable("cpu_ratio", part.cpu_ratio))}</td>
                <td class="number">${cell(part, "memory_rss_bytes", readable("memory_rss_bytes", part.memory_rss_bytes))}</td>
                <td><code>laggard ${part.part}</code></td>
              </tr>`,
            )}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">Total</th>
              <td class="number">${readable("cpu_ratio", sum("cpu_ratio"))}</td>
              <td class="number">${readable("memory_rss_bytes", sum("memory_rss_bytes"))}</td>
              <td></td>
            </tr>
          </tfoot>
        </table>
      </div>
      ${this.page.params.row ? this.#series(cost) : nothing}`;
  }

  #series({ features }) {
    const { series } = this.data;
    const { row, metric = "cpu_user_ratio" } = this.page.params;
    const offered = features.includes(metric) ? features : [metric, ...features];
    return html`<h3>${row}</h3>
      <p class="pipeline-actions">
        <label>Metric
          <select @change=${(event) => this.page.go({ metric: event.target.value })}>
            ${offered.map((each) => html`<option value=${each} ?selected=${each === metric}>${each}</option>`)}
          </select>
        </label>
        <a class="button" href=${this.#here({ row: undefined, metric: undefined })}>Close</a>
      </p>
      ${series?.ts.length
        ? html`<laggard-chart
            .chart=${{ feature: series.feature, ts: series.ts, lines: [{ label: series.feature, values: series.values }], extremes: { low: series.low, high: series.high } }}
            .label=${`${series.feature} of ${row} over time`}
            .height=${220}
          ></laggard-chart>`
        : html`<p>No recent data.</p>`}`;
  }

  #here(params) {
    return this.page.href("/pipeline", { ...this.page.params, ...params });
  }
}

function state(task) {
  if (task.recovery_left_records > 0) return html`<strong class="alarm">recovering</strong>: ${count(task.recovery_left_records)} records to replay`;
  if (task.standby_left_records !== null) return html`standby, ${count(task.standby_left_records)} records behind`;
  if (!task.remembers) return "stateless";
  return task.member ? "up to date" : html`<span class="muted">not known</span>`;
}

function snapshot(task, now) {
  if (!task.remembers) return "-";
  if (task.snapshot_behind_records === null) return html`<span class="muted">none yet</span>`;
  const keys = task.snapshot_keys === 1 ? "1 key" : `${count(task.snapshot_keys)} keys`;
  const age = task.snapshot_ts === null ? "" : `${duration(Math.max(now - task.snapshot_ts, 0))} old, `;
  return `${age}${count(task.snapshot_behind_records)} records ago; ${keys}`;
}

/** Group letters by record. */
function byRecord(letters) {
  const found = new Map();
  for (const each of letters) {
    const record = `${each.place} ${each.ts} ${each.bytes}`;
    found.set(record, [...(found.get(record) ?? []), each]);
  }
  return [...found.values()];
}

/** The name of a letter in the address: `0@12`. */
function nameOf({ partition, offset }) {
  return `${partition}@${offset}`;
}

function isName(letter) {
  return /^\d{1,15}@\d{1,15}$/.test(letter ?? "");
}

function placeOf(letter) {
  const [partition, offset] = letter.split("@").map(Number);
  return { partition, offset };
}
