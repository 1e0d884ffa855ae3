/** The viewer's choice of light or dark, before anything is drawn. A classic script: a module would come too late. */

(() => {
  let chosen;
  try {
    chosen = localStorage.getItem("laggard.theme");
  } catch {
    // The browser keeps nothing for this page.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
