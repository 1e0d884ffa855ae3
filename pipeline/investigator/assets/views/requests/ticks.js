/** Round numbers for axes. */

/** Ticks of 1, 2 and 5 times powers of ten between two positive numbers; only the powers if that is too many. */
export function logTicks(low, high, most) {
  for (const steps of [[1, 2, 5], [1]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    }
    if (found.length <= most || steps.length === 1) return found;
  }
  return [];
}

/** At most this many ticks, evenly spaced, between two numbers. */
export function evenTicks(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const size = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => span / each <= most);
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high; number += 1) found.push(number * step);
  return found;
}
