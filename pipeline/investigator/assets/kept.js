/** What a viewer has chosen for good: kept by the browser, or where it keeps nothing for as long as the page is open. */

const here = new Map();

/** What was kept under a name; undefined for nothing. */
export function kept(name) {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch {
    return here.get(name);
  }
}

/** Keep a text under a name; undefined for nothing. */
export function keep(name, text) {
  here.set(name, text);
  try {
    if (text === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, text);
  } catch {
    // The browser keeps nothing for this page.
  }
}
