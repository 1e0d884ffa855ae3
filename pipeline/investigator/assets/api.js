/** The API: JSON over fetch, with the proof of the session that a person opened by a token. */

const PREFIX = "/api/v1";
const KEY = "laggard.session";

/** An answer that says no: what is wrong, and what was expected. */
export class Refusal extends Error {
  constructor(status, error, expected) {
    super(error);
    this.status = status;
    this.expected = expected;
  }
}

/** The headers that prove the session. The cookie alone opens nothing, nor does this alone. */
export function proof() {
  const key = sessionStorage.getItem(KEY);
  return key ? { "X-Laggard-Session": key } : {};
}

export function remember(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/**
 * Ask.
 *
 * @param {string} path below the API's prefix: "/moment"
 * @param {Record<string, any>} params those that are undefined, null or empty are left out
 * @param {AbortSignal=} signal ends it
 * @returns {Promise<any>} the answer
 * @throws {Refusal}
 */
export function get(path, params = {}, signal = undefined) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return request(query ? `${path}?${query}` : path, { signal });
}

/** Change something; see `get`. */
export function post(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

async function request(path, options) {
  const headers = { Accept: "application/json", ...proof(), ...options.headers };
  let response;
  try {
    response = await fetch(PREFIX + path, { ...options, headers, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "laggard does not answer", "that `laggard up` or `laggard serve` runs");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new Refusal(response.status, body.error ?? `status ${response.status}`, body.expected ?? "");
}
