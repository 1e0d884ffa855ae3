/** What is new, by server-sent events. They are read with fetch, for EventSource cannot send the session's proof. */

import { proof } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/**
 * Listen until the signal ends it, over broken connections.
 *
 * A tab that nobody looks at does not listen: browsers open few connections to one host, and some tabs would take all.
 * When it is looked at again, `changed(false)` and `changed(true)` say that news may have been missed.
 *
 * @param {(topics: string[]) => void} heard called with the topics that have grown
 * @param {(connected: boolean) => void} changed called when the connection comes or goes
 * @param {() => void} refused called when the request is not authenticated, as after laggard was started anew; nothing is
 *   listened to any more
 * @param {AbortSignal} signal
 */
export async function listen(heard, changed, refused, signal) {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    if (document.hidden) await seen(signal);
    const unseen = new AbortController();
    const look = () => document.hidden && unseen.abort();
    document.addEventListener("visibilitychange", look);
    try {
      const ended = AbortSignal.any([signal, unseen.signal]);
      const response = await fetch("/api/v1/live", { headers: proof(), signal: ended, credentials: "same-origin" });
      if (response.ok) {
        changed(true);
        wait = FIRST_WAIT_MS;
        await read(response.body, heard);
      } else if (response.status === 401 && !signal.aborted) {
        refused();
        return;
      }
    } catch {
      // Refused, broken or unseen: tried again below.
    } finally {
      document.removeEventListener("visibilitychange", look);
    }
    if (signal.aborted) return;
    changed(false);
    if (unseen.signal.aborted) continue;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

/** Resolves when the tab is looked at, or when the signal ends the waiting. */
function seen(signal) {
  return new Promise((done) => {
    const look = () => {
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

async function read(stream, heard) {
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
      if (data) heard(JSON.parse(data.slice(6)).topics);
    }
  }
}
