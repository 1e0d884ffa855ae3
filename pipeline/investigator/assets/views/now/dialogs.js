/** The dialog *Why is it slow?*, and the list of keys. */

import { post, Refusal } from "../../api.js";
import { html, nothing } from "../../packages/lit-html/lit-html.js";
import { time } from "../../time.js";
import { seconds } from "../../state.js";
import { store, stored } from "../../storage.js";

/** The API's limit for a note, in characters. */
const LONGEST_NOTE = 4096;

const KEYS = [
  ["/", "filter the processes"],
  ["j or ↓", "next process"],
  ["k or ↑", "previous process"],
  ["Enter", "go to its features"],
  ["[", "one tick back"],
  ["]", "one tick forward"],
  ["n", "now, live"],
  ["m", "mark this moment"],
  ["?", "list of keys"],
];

const LETTERS = "laggard.letters";

/** Whether keys of one character are enabled: with speech input they may fire by accident. */
export function letters() {
  return stored(LETTERS) !== "off";
}

export function openMark() {
  document.querySelector("#now-mark")?.showModal();
}

export function openKeys() {
  document.querySelector("#now-keys")?.showModal();
}

export function dialogs(view) {
  return html`${view.page.cluster.writes === false || !view.moment ? nothing : mark(view)}
    <dialog id="now-keys" aria-labelledby="now-keys-title">
      <h2 id="now-keys-title">Keys</h2>
      <table>
        <tbody>
          ${KEYS.map(([key, does]) => html`<tr><th scope="row">${key.split(" or ").map((each, index) => html`${index ? " or " : ""}<kbd>${each}</kbd>`)}</th><td>${does}</td></tr>`)}
        </tbody>
      </table>
      <p>
        <label
          ><input type="checkbox" .checked=${letters()} @change=${(event) => store(LETTERS, event.target.checked ? undefined : "off")} />
          Enable keys of one character</label
        >
      </p>
      <form method="dialog" class="now-buttons"><button class="first">Close</button></form>
    </dialog>`;
}

function mark(view) {
  const { moment, at } = view;
  return html`<dialog id="now-mark" aria-labelledby="now-mark-title">
    <form @submit=${(event) => send(view, event)}>
      <h2 id="now-mark-title">Why is it slow?</h2>
      <p>${at === undefined ? html`Marks this moment on ${moment.host}, and shows it.` : html`Marks ${time(at)} on ${moment.host}.`}</p>
      <label for="now-note">What is slow? <span class="muted">(optional note)</span></label>
      <textarea id="now-note" name="note" rows="3" maxlength=${LONGEST_NOTE} @keydown=${submitOnEnter}></textarea>
      <div class="now-buttons">
        <button type="button" @click=${(event) => event.target.closest("dialog").close()}>Cancel</button>
        <button class="first">Mark</button>
      </div>
    </form>
  </dialog>`;
}

function submitOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  event.target.form.requestSubmit();
}

async function send(view, event) {
  event.preventDefault();
  const form = event.target;
  const { at, moment } = view;
  const ts = at === undefined ? {} : { ts: at };
  try {
    const { mark: set } = await post("/marks", { host: moment.host, note: form.elements.note.value.trim(), ...ts });
    form.closest("dialog").close();
    form.reset();
    view.marked();
    view.page.go({ at: seconds(set.ts), compare: undefined, from: undefined, to: undefined });
    view.page.notify("Marked. The address of this page now links to this moment.");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    form.closest("dialog").close();
    view.page.notify(error.text, "error");
  }
}
