/** The state of the page, in its address: a link shows a colleague the same. */

/** The paths of the views, in the order of the menu. */
export const VIEWS = [
  { path: "/", module: "now", title: "Now" },
  { path: "/incidents", module: "incidents", title: "Incidents" },
  { path: "/applications", module: "applications", title: "Applications" },
  { path: "/pools", module: "pools", title: "Pools" },
  { path: "/requests", module: "requests", title: "Requests" },
  { path: "/pipeline", module: "pipeline", title: "Pipeline" },
];

/**
 * The view and its parameters, by the page's address.
 *
 * @returns {{path: string, params: Record<string, string>}}
 */
export function read(location = window.location) {
  const path = VIEWS.some((view) => view.path === location.pathname) ? location.pathname : "/";
  return { path, params: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The address of a view with these parameters, without empty ones. */
export function address(path, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return query ? `${path}?${query}` : path;
}

/** The last second of the year 9999, since the Unix epoch: the API's latest time. */
const MOST = 253_402_300_799;

/** A parameter that is a count, or a time in seconds since the Unix epoch; undefined if missing or invalid. */
export function number(params, name) {
  const value = params[name] === undefined || params[name] === "" ? NaN : Number(params[name]);
  return value >= 0 && value <= MOST ? value : undefined;
}

/** The time range of `from` and `to`, the earlier first; undefined for an open end. */
export function stretch(params) {
  const [from, to] = [number(params, "from"), number(params, "to")];
  return from > to ? { from: to, to: from } : { from, to };
}

/** A time for an address, rounded up to milliseconds: a moment selects the newest frame up to it. */
export function seconds(ts) {
  return Math.ceil(ts * 1000) / 1000;
}
