/** The processes of a moment, by score. */

import { repeat } from "../../packages/lit-html/directives/repeat.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { greatest, scored } from "./bar.js";
import { rove } from "./grid.js";

/** The number of rows before *Show all*. */
const FIRST_ROWS = 100;

/** The id of the row with the host's own counters. */
export const HOST = "host";

const ROLES = { culprit: "culprit", victim: "waits", own: "laggard itself" };

/** The badges of a row. */
export function badge(row) {
  const label = row.row === HOST ? "host" : ROLES[row.role];
  return html`${label ? html` <span class="badge ${row.role}">${label}</span>` : nothing}${row.gone_s > 0
    ? html` <span class="badge">ended</span>`
    : nothing}${row.score === null && row.role !== "own" ? html` <span class="badge">new</span>` : nothing}`;
}

/** The rows: culprits first, then the others with the host's own by score. If the host is the cause, its row is first. */
function ranked({ moment, comparison, host }) {
  const { rows, host_row } = comparison ?? moment;
  const own = host_row ? [{ ...host_row, row: HOST, name: host }] : [];
  if (comparison || moment.subject?.scope === HOST) return [...own, ...rows];
  const culprits = rows.filter((row) => row.role === "culprit");
  const others = rows.filter((row) => row.role !== "culprit");
  const index = others.findIndex((row) => (row.score ?? -1) < (host_row?.score ?? 0));
  return [...culprits, ...others.toSpliced(index < 0 ? others.length : index, 0, ...own)];
}

/** The rows that match the filter. */
function filtered(view, rows) {
  const words = (view.page.params.filter ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const text = `${row.name} ${row.pid ?? ""} ${row.user} ${row.container} ${row.command}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The visible rows: the first ones, and the selected one. */
export function shownRows(view) {
  const found = filtered(view, ranked(view));
  if (view.all || found.length <= FIRST_ROWS) return found;
  const chosen = found.findIndex((row) => row.row === view.chosen);
  return chosen < FIRST_ROWS ? found.slice(0, FIRST_ROWS) : [...found.slice(0, FIRST_ROWS), found[chosen]];
}

export function focusRow(row) {
  document.querySelector(`.now-ranking [data-row="${CSS.escape(row)}"]`)?.focus();
}

/** Select a row, and move the focus to its features. */
export function openRow(view, row) {
  if (row !== view.page.params.row) view.choose(row);
  const pane = document.querySelector(".now-features");
  pane?.focus({ preventScroll: true });
  pane?.scrollIntoView({ block: "nearest" });
}

/** The pane's head: the number of rows, and the filter. */
export function head(view, title, rows, shown) {
  const found = filtered(view, rows).length;
  return html`<div class="now-head">
    <h2>${title} <span class="muted now-count">${found === rows.length ? rows.length : `${found} of ${rows.length}`}</span></h2>
    <label class="unseen" for="now-filter">Filter by name, PID, user, container or command</label>
    <input
      id="now-filter"
      type="search"
      placeholder="Filter  /"
      autocomplete="off"
      spellcheck="false"
      .value=${view.page.params.filter ?? ""}
      @input=${(event) => view.page.go({ filter: event.target.value || undefined }, { replace: true })}
      @keydown=${(event) => leaveFilter(event, shown)}
    />
  </div>`;
}

/** The table's foot: a button for the remaining rows. */
export function foot(view, rows, shown) {
  const found = filtered(view, rows).length;
  if (!found) return html`<p class="now-rest muted">No match in name, PID, user, container or command.</p>`;
  if (shown.length >= found) return nothing;
  return html`<p class="now-rest">
    <button @click=${() => ((view.all = true), view.page.update())}>Show all ${found}</button>
  </p>`;
}

/** The rows as a table's body: one is in the tab order; `cells` returns the cells of a row. */
export function body(view, shown, cells) {
  const { chosen } = view;
  const tabbed = shown.some((row) => row.row === chosen) ? chosen : shown[0]?.row;
  const row = (each) => html`<tr
    class=${each.row === HOST ? "now-host" : nothing}
    tabindex=${each.row === tabbed ? 0 : -1}
    data-row=${each.row}
    aria-selected=${each.row === chosen}
    @click=${() => view.choose(each.row)}
  >
    ${cells(each)}
  </tr>`;
  return html`<tbody @keydown=${(event) => rove(event, (to) => view.choose(to.dataset.row, { replace: true }))}>
    ${repeat(shown, (each) => each.row, row)}
  </tbody>`;
}

export function ranking(view) {
  const { moment } = view;
  const shown = shownRows(view);
  const with_ = { user: moment.rows.some((row) => row.user), container: moment.rows.some((row) => row.container) };
  const most = greatest(moment.rows.map((each) => each.score));
  const processes = moment.scope === "process";
  const title = processes ? "Processes" : `Rows: ${moment.scope}`;
  const cells = (each) => html`<td class="number now-score">${scored(each.score, most)}</td>
    <th scope="row"><span class="now-name" title=${each.took || nothing}>${each.name}</span>${badge(each)}</th>
    ${processes ? html`<td class="number">${each.pid ?? ""}</td>` : nothing}
    ${with_.user ? html`<td class="now-user" title=${each.user}>${each.user}</td>` : nothing}
    ${with_.container ? html`<td class="now-container" title=${each.container}>${each.container}</td>` : nothing}
    <td class="now-command" title=${each.command || each.took || nothing}>${each.row === HOST ? each.took : each.command}</td>`;
  return html`<section class="card now-ranking" aria-label=${title}>
    ${head(view, title, moment.rows, shown)}
    <div class="now-scroll">
      <table role="grid" aria-label="${title}, the highest score first">
        <thead>
          <tr>
            <th scope="col" class="number now-col-score">Score</th>
            <th scope="col" class="now-col-name">Name</th>
            ${processes ? html`<th scope="col" class="number now-col-pid">PID</th>` : nothing}
            ${with_.user ? html`<th scope="col" class="now-col-user">User</th>` : nothing}
            ${with_.container ? html`<th scope="col" class="now-col-container">Container</th>` : nothing}
            <th scope="col" class="now-col-command">Command</th>
          </tr>
        </thead>
        ${body(view, shown, cells)}
      </table>
      ${foot(view, moment.rows, shown)}
      ${moment.rows_left_out ? html`<p class="now-rest muted">${moment.rows_left_out} more rows are not shown.</p>` : nothing}
    </div>
  </section>`;
}

function leaveFilter(event, shown) {
  if (event.key === "ArrowDown" || event.key === "Enter") {
    event.preventDefault();
    if (shown.length) focusRow(shown[0].row);
  } else if (event.key === "Escape" && !event.target.value) {
    event.target.blur();
  }
}
