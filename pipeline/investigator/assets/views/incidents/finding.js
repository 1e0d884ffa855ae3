/** Finds the incident of an alert: an alert has its subject and its time, but no id. */

import { get } from "../../api.js";
import { number } from "../../state.js";
import { KINDS } from "./words.js";

/** Alerts have whole seconds. */
const ROUNDED_S = 1;

/**
 * The id of the incident that was open at a moment.
 *
 * @param {Record<string, string>} params of the page: `at`, and one of `host`, `application`, `pool` or `service`
 * @returns {Promise<string|undefined>} undefined if none or several were open; the list shows these
 */
export async function find(params, signal) {
  const at = number(params, "at");
  const kind = KINDS.find((each) => params[each]);
  if (params.id || at === undefined || !kind) return undefined;
  const { incidents } = await get("/incidents", { [kind]: params[kind], from: at - ROUNDED_S, to: at + ROUNDED_S }, signal);
  return incidents.length === 1 ? incidents[0].id : undefined;
}
