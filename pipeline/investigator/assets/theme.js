/** The viewer's choice of light or dark, before anything is drawn. A classic script: a module would come too late. */

(() => {
  const chosen = localStorage.getItem("laggard.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
