/** What is new, by server-sent events. They are read with fetch, for EventSource cannot send the session's proof. */

import { proof } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/**
 * Listen until the signal ends it, over broken connections.
 *
 * A tab that nobody looks at does not listen: browsers open few connections to one host, and some tabs would take all.
 * When it is looked at again, `onConnection(false)` and `onConnection(true)` say that news may have been missed.
 *
 * @param {(topics: string[]) => void} onTopics called with the topics that have grown
 * @param {(connected: boolean) => void} onConnection called when the connection comes or goes
 * @param {() => void} onRefused called when nobody has said who asks, as after laggard was started anew; nothing is
 *   listened to any more
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
      // Refused, broken or hidden: tried again below.
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

/** Resolves when the tab is looked at, or when the signal ends the waiting. */
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
