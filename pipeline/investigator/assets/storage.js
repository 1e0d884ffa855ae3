/** What a viewer has chosen for good: kept by the browser, or where it keeps nothing for as long as the page is open. */

const fallback = new Map();

/** What was kept under a name; undefined for nothing. */
export function stored(name) {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch {
    return fallback.get(name);
  }
}

/** Keep a text under a name; undefined for nothing. */
export function store(name, text) {
  fallback.set(name, text);
  try {
    if (text === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, text);
  } catch {
    // The browser keeps nothing for this page.
  }
}
