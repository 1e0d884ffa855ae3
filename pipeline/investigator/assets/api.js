/** The API: JSON over fetch, with the proof of the session that a person opened by a token. */

import { address } from "./state.js";

const PREFIX = "/api/v1";
const KEY = "laggard.session";

/** Other tabs answer within this time, or there are none. */
const OTHERS_MS = 200;

/** Told to the window when another tab has opened a session or ended it. */
export const SESSION = "laggard-session";

/**
 * An answer that says no: what is wrong, and what was expected.
 *
 * `challenge`: a 401 says in it how to prove who asks; null where that is not by a token.
 */
export class Refusal extends Error {
  constructor(status, error, expected, challenge = null) {
    super(error);
    this.status = status;
    this.expected = expected;
    this.challenge = challenge;
  }

  /** Both in one sentence. */
  get text() {
    return this.expected ? `${this.message}; expected ${this.expected}` : this.message;
  }
}

/** The key, where the browser lets a page store nothing: then it goes when the page is loaded again. */
let unstored = "";

// A key is for one tab and goes with it. Tabs of the same origin, and nobody else, pass it on to each other.
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

/** The header that proves the session; undefined without one. The cookie alone opens nothing, nor does this alone. */
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
    // It is remembered above.
  }
}

/** Open a session by a token, for every tab. Throws a `Refusal`. */
export async function openSession(token) {
  const { key } = await post("/session", { token });
  storeKey(key);
  others.postMessage({ key });
}

/** End the session, for every tab. Throws a `Refusal`. */
export async function endSession() {
  await post("/session/end", {});
  storeKey("");
  others.postMessage({ ended: true });
}

/** Whether another tab has a session that this one does not know yet; then it is known. */
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
 * Ask.
 *
 * @param {string} path below the API's prefix: "/moment"
 * @param {Record<string, any>} params those that are undefined, null or empty are left out
 * @param {AbortSignal=} signal ends it
 * @returns {Promise<any>} the answer
 * @throws {Refusal}
 */
export function get(path, params = {}, signal = undefined) {
  return request(address(path, params), { signal });
}

/** Change something; see `get`. */
export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", body: JSON.stringify(body), headers });
}

/** What was asked by `get`; undefined where there is no such thing. */
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
    throw new Refusal(0, "laggard does not answer", "that `laggard up` or `laggard serve` runs");
  }
  const body = await content(response);
  if (response.ok) return body;
  const challenge = response.headers.get("WWW-Authenticate");
  if (response.status === 401 && challenge && path !== "/session" && !asked && (await askOthers())) {
    return request(path, options, true);
  }
  throw new Refusal(response.status, body.error ?? `status ${response.status}`, body.expected ?? "", challenge);
}

/** What a response holds; nothing is not taken for an answer where it broke off, or was given up half read. */
async function content(response) {
  try {
    return response.status === 204 ? {} : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new Refusal(0, "laggard broke off", "a whole answer: try again");
    return {};
  }
}
