/** Applies the viewer's light or dark theme before the first paint. Not a module: those run too late. */

(() => {
  let chosen;
  try {
    chosen = localStorage.getItem("laggard.theme");
  } catch {
    // The browser blocks storage.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
