/** What is new, by server-sent events. They are read with fetch, for EventSource cannot send the session's proof. */

import { proof } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/**
 * Listen until the signal ends it, over broken connections.
 *
 * @param {(topics: string[]) => void} heard called with the topics that have grown
 * @param {(connected: boolean) => void} changed called when the connection comes or goes
 * @param {AbortSignal} signal
 */
export async function listen(heard, changed, signal) {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      const response = await fetch("/api/v1/live", { headers: proof(), signal, credentials: "same-origin" });
      if (response.ok) {
        changed(true);
        wait = FIRST_WAIT_MS;
        await read(response.body, heard);
      }
    } catch {
      // Refused or broken: tried again below.
    }
    if (signal.aborted) return;
    changed(false);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
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
