/** Live updates by server-sent events. Uses fetch, since EventSource cannot send the session's header. */

import { proof } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/**
 * Listen until the signal aborts, and reconnect after failures.
 *
 * A hidden tab does not listen: browsers limit the connections to one host, and a few tabs would use all of them. When
 * the tab becomes visible again, `onConnection(false)` and `onConnection(true)` report that events may have been missed.
 *
 * @param {(topics: string[]) => void} onTopics called with the topics that have new records
 * @param {(connected: boolean) => void} onConnection called when the connection opens or closes
 * @param {() => void} onRefused called when the session has ended, for example after a restart of laggard;
 *   listening stops
 * @param {AbortSignal} signal
 */
export async function listen(onTopics, onConnection, onRefused, signal) {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    if (document.hidden) await visible(signal);
    const hidden = new AbortController();
    const check = () => document.hidden && hidden.abort();
    document.addEventListener("visibilitychange", check);
    try {
      const ended = AbortSignal.any([signal, hidden.signal]);
      const response = await fetch("/api/v1/live", { headers: proof(), signal: ended, credentials: "same-origin" });
      if (response.ok) {
        onConnection(true);
        wait = FIRST_WAIT_MS;
        await read(response.body, onTopics);
      } else if (response.status === 401 && !signal.aborted) {
        onRefused();
        return;
      }
    } catch {
      // Rejected, disconnected or hidden: retried below.
    } finally {
      document.removeEventListener("visibilitychange", check);
    }
    if (signal.aborted) return;
    onConnection(false);
    if (hidden.signal.aborted) continue;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

/** Resolve when the tab becomes visible, or the signal aborts. */
function visible(signal) {
  return new Promise((done) => {
    const check = () => {
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      done();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
  });
}

async function read(stream, onTopics) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) onTopics(JSON.parse(data.slice(6)).topics);
    }
  }
}
