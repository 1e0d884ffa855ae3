/** Arrow keys in a table: one of its rows is in the tab order, as in ARIA's grid pattern. */

/**
 * Handle `@keydown` of a table body whose rows have `tabindex`: arrows, Home and End move the focus.
 *
 * @param {KeyboardEvent} event
 * @param {(row: HTMLElement) => void} moved called with the row that gets the focus
 */
export function rove(event, moved) {
  const row = event.target.closest("tr");
  if (!row || event.target !== row) return;
  const rows = [...row.parentElement.querySelectorAll("tr[tabindex]")];
  const index = rows.indexOf(row);
  const next = { ArrowDown: rows[index + 1], ArrowUp: rows[index - 1], Home: rows[0], End: rows.at(-1) }[event.key];
  if (!(event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End")) return;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") return;
  event.preventDefault();
  if (!next || next === row) return;
  next.focus();
  moved(next);
}
