/** Formats of values, times and durations; the same as the command line's. */

const BYTES = ["", "k", "M", "G", "T", "P"].map((prefix, power) => [1000 ** power, 1000 ** power, ` ${prefix}B`]);
const COUNTS = [
  [1, 1, ""],
  [1e5, 1e3, " k"],
  [1e6, 1e6, " M"],
  [1e9, 1e9, " G"],
];
const RATIOS = [[1, 0.01, " %", 1]];
const SECONDS = [
  [1e-9, 1e-9, " ns"],
  [1e-6, 1e-6, " us"],
  [1e-3, 1e-3, " ms"],
  [1, 1, " s"],
  [120, 60, " min", 1],
  [7200, 3600, " h", 1],
  [172800, 86400, " d", 1],
];
const SUFFIXES = [
  ["_bytes", BYTES],
  ["_characters", BYTES],
  ["_ratio", RATIOS],
  ["_seconds", SECONDS],
  ["_s", SECONDS],
];

/**
 * The value of a feature with its unit, by the end of its name: `212 MB/s`, `97 %`; `-` for a missing value.
 * `finer`: the number of additional decimals.
 */
export function readable(feature, value, finer = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (feature.endsWith("_timestamp_seconds")) return moment(value);
  const base = feature.endsWith("_per_s") ? feature.slice(0, -6) : feature;
  const steps = SUFFIXES.find(([suffix]) => base.endsWith(suffix))?.[1] ?? COUNTS;
  const magnitude = Math.abs(value) * 1.0005;
  const step = magnitude === 0 ? (steps.find(([, size]) => size === 1) ?? steps[0]) : (steps.findLast(([least]) => magnitude >= least) ?? steps[0]);
  return `${digits(value / step[1], step[3] ?? 3, finer)}${step[2]}${base === feature ? "" : "/s"}`;
}

/** Values along an axis, with as many decimals as distinguish them. */
export function readables(feature, values) {
  for (let finer = 0; ; finer += 1) {
    const texts = values.map((value) => readable(feature, value, finer));
    if (finer === 2 || new Set(texts).size === texts.length) return texts;
  }
}

function digits(value, most, finer) {
  const size = Math.abs(value);
  const decimals = Math.min(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3, most) + finer;
  return value.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: 0 }).replace(/^-0$/, "0");
}

/** A score: `0.10`, `22.4`, `1,204`. */
export function score(value) {
  if (value === null || value === undefined) return "-";
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** The baseline of a feature: `3.2 MB/s ± 410 kB/s`; only the mean if the spread is unknown. */
export function usual(feature, mean, deviation) {
  return mean === null || mean === undefined || !deviation ? readable(feature, mean) : `${readable(feature, mean)} ± ${readable(feature, deviation)}`;
}

/** A duration: `45 s`, `2 min`, `1.5 h`. */
export function duration(seconds) {
  return readable("duration_seconds", seconds < 120 ? Math.round(seconds) : Math.round(seconds / 10) * 10);
}

const two = (value) => String(value).padStart(2, "0");

/** Date and time in the viewer's time zone: `2026-11-22 23:07:41`. */
export function moment(ts) {
  const at = new Date(ts * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ts)}`;
}

/** The time of day in the viewer's time zone. */
export function clock(ts) {
  const at = new Date(ts * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Date and time in UTC. */
export function utc(ts) {
  return `${new Date(ts * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A name with its invisible characters escaped, so that different names look different. */
export function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => {
    const code = each.codePointAt(0);
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
}
