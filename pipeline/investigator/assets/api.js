/** The client of the API: JSON over fetch, with the header of the session. */

import { address } from "./state.js";

const PREFIX = "/api/v1";
const KEY = "laggard.session";

/** The time limit for answers of other tabs. */
const OTHERS_MS = 200;

/** The event on the window after another tab has opened or ended a session. */
export const SESSION = "laggard-session";

/**
 * A failed request: the error, and the expected value.
 *
 * `challenge`: the `WWW-Authenticate` header of a 401; null if laggard does not use tokens.
 */
export class Refusal extends Error {
  constructor(status, error, expected, challenge = null) {
    super(error);
    this.status = status;
    this.expected = expected;
    this.challenge = challenge;
  }

  /** The error and the expected value in one sentence. */
  get text() {
    return this.expected ? `${this.message}; expected ${this.expected}` : this.message;
  }
}

/** The key if the browser blocks storage; a reload of the page loses it. */
let unstored = "";

// A tab's session storage ends with the tab. Only tabs of the same origin pass the key to each other.
const others = new BroadcastChannel(KEY);
others.addEventListener("message", ({ data }) => {
  const key = storedKey();
  if (data.asks && key) others.postMessage({ key });
  if (data.key && data.key !== key) {
    storeKey(data.key);
    window.dispatchEvent(new Event(SESSION));
  }
  if (data.ended) {
    storeKey("");
    window.dispatchEvent(new Event(SESSION));
  }
});

/** The session's header; undefined without a session. A request needs both the cookie and this header. */
export function proof() {
  const key = storedKey();
  return key ? { "X-Laggard-Session": key } : undefined;
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? unstored;
  } catch {
    return unstored;
  }
}

function storeKey(key) {
  unstored = key;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The browser blocks storage; `unstored` has the key.
  }
}

/** Open a session with a token, for all tabs. Throws a `Refusal`. */
export async function openSession(token) {
  const { key } = await post("/session", { token });
  storeKey(key);
  others.postMessage({ key });
}

/** End the session in all tabs. Throws a `Refusal`. */
export async function endSession() {
  await post("/session/end", {});
  storeKey("");
  others.postMessage({ ended: true });
}

/** Fetch the key of a session from another tab; resolves to whether there was one. */
function askOthers() {
  return new Promise((resolve) => {
    const found = () => done(true);
    const timer = setTimeout(() => done(false), OTHERS_MS);
    const done = (answer) => {
      clearTimeout(timer);
      window.removeEventListener(SESSION, found);
      resolve(answer);
    };
    window.addEventListener(SESSION, found);
    others.postMessage({ asks: true });
  });
}

/**
 * Send a GET request.
 *
 * @param {string} path below the API's prefix: "/moment"
 * @param {Record<string, any>} params undefined, null and empty ones are omitted
 * @param {AbortSignal=} signal cancels the request
 * @returns {Promise<any>} the answer
 * @throws {Refusal}
 */
export function get(path, params = {}, signal = undefined) {
  return request(address(path, params), { signal });
}

/** Send a POST request; see `get`. */
export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", body: JSON.stringify(body), headers });
}

/** The answer of `get`; undefined after a 404. */
export async function unlessMissing(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return undefined;
    throw error;
  }
}

async function request(path, options, asked = false) {
  const headers = { Accept: "application/json", ...proof(), ...options.headers };
  let response;
  try {
    response = await fetch(PREFIX + path, { ...options, headers, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "laggard does not respond", "a running `laggard up` or `laggard serve`");
  }
  const body = await content(response);
  if (response.ok) return body;
  const challenge = response.headers.get("WWW-Authenticate");
  if (response.status === 401 && challenge && path !== "/session" && !asked && (await askOthers())) {
    return request(path, options, true);
  }
  throw new Refusal(response.status, body.error ?? `status ${response.status}`, body.expected ?? "", challenge);
}

/** The body of a response. An incomplete body is an error, not an empty answer. */
async function content(response) {
  try {
    return response.status === 204 ? {} : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new Refusal(0, "The response is incomplete", "a complete response: try again");
    return {};
  }
}
