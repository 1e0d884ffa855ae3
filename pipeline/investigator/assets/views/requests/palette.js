/** Colors of durations: viridis, which is perceptually uniform and suits color-blind viewers. */

/** Ten of its 256 colors, evenly spaced (S. van der Walt, N. Smith, 2015; CC0). */
const VIRIDIS = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [181, 222, 43],
  [253, 231, 37],
];

/** The range of the palette on light and on dark: slow requests stand out, fast ones remain visible. */
const LIGHT = [0.8, 0];
const DARK = [0.22, 1];

/** The color of a share from 0, the fastest, to 1, the slowest. */
export function color(share, dark) {
  const [least, most] = dark ? DARK : LIGHT;
  const at = (least + (most - least) * Math.min(Math.max(share, 0), 1)) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mixed = VIRIDIS[low].map((value, part) => Math.round(value + (VIRIDIS[low + 1][part] - value) * (at - low)));
  return `rgb(${mixed.join(" ")})`;
}

/** Whether the page is dark, by the viewer's choice or the system's. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}
