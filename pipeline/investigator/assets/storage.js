/** The viewer's preferences, in the browser's local storage; in memory if the browser blocks it. */

const fallback = new Map();

/** The stored text of a name; undefined without one. */
export function stored(name) {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch {
    return fallback.get(name);
  }
}

/** Store a text under a name; undefined removes it. */
export function store(name, text) {
  fallback.set(name, text);
  try {
    if (text === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, text);
  } catch {
    // The browser blocks storage; `fallback` has the text.
  }
}
