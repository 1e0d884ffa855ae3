/** The page: its menu, the view of its address, and live updates. */

import { endSession, get, openSession, proof, Refusal, SESSION } from "./api.js";
import "./chart.js";
import { listen } from "./live.js";
import { live } from "./packages/lit-html/directives/live.js";
import { html, nothing, render } from "./packages/lit-html/lit-html.js";
import { sentence } from "./sentence.js";
import { address, read, VIEWS } from "./state.js";
import { store } from "./storage.js";

/** The shortest interval between updates of a live view. */
const REFRESH_MS = 1000;

/** The shortest interval between requests for the list of hosts. */
const CLUSTER_MS = 60_000;

/** The delay before a retry after a failure of the server. */
const AGAIN_MS = 5000;

/** The delay before a retry if the first request of the page fails. */
const OPEN_AGAIN_MS = 2000;

/** The time that a message stays at the foot of the page. */
const MESSAGE_MS = 8000;

const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const THEME = "laggard.theme";

/** The cluster before the first answer, and while the page is locked. */
const UNKNOWN = { host: "", hosts: [], version: "", now: 0, writes: false, who: "", session: false };

/**
 * The page around a view.
 *
 * @typedef {object} Page
 * @property {Record<string, string>} params of the address
 * @property {{host: string, hosts: string[], version: string, now: number, writes: boolean, who: string, session: boolean}} cluster
 * @property {number} now by laggard's clock, not the viewer's: seconds since the Unix epoch
 * @property {(params: Record<string, any>, options?: {path?: string, replace?: boolean, fresh?: boolean}) => void} go
 *   changes parameters of the address (undefined removes one; `fresh` removes all others), and shows the result
 * @property {(path: string, params?: Record<string, any>) => string} href the address of another view on the same host
 * @property {() => void} update renders the current data again
 * @property {() => Promise<void>} reload requests the data again
 * @property {(text: string, kind?: "info"|"error") => void} notify shows a message at the foot of the page
 */
class Page {
  cluster = { ...UNKNOWN };
  #view;
  #module = "";
  #error;
  #reading;
  #busy = false;
  #message;
  #messageTimer;
  #connected = true;
  #locked = false;
  #listening;
  #stale = new Set();
  #timer;
  #again;
  #lastRead = 0;
  #clusterRead = 0;

  constructor() {
    const { path, params } = read();
    this.path = path;
    this.params = params;
  }

  async start() {
    window.addEventListener("popstate", () => this.#navigated());
    document.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("visibilitychange", () => this.#grown([]));
    window.addEventListener(SESSION, () => {
      if (this.#locked || !proof()) this.#open();
    });
    window.addEventListener("hashchange", () => this.#followed());
    await this.#followed();
    if (!this.#listening) await this.#open();
  }

  async #open() {
    clearTimeout(this.#again);
    this.#listening?.abort();
    const listening = (this.#listening = new AbortController());
    try {
      await this.#readCluster();
    } catch (error) {
      if (listening.signal.aborted) return;
      this.#refused(error);
      this.update();
      if (!this.#locked) this.#again = setTimeout(() => this.#open(), OPEN_AGAIN_MS);
      return;
    }
    if (listening.signal.aborted) return;
    this.#locked = false;
    this.#error = undefined;
    listen(
      (topics) => this.#grown(topics),
      (connected) => this.#reached(connected),
      () => this.#open(),
      listening.signal,
    );
    await this.#show();
  }

  /** Update the connection's state. After a reconnection, the server reports all topics. */
  #reached(connected) {
    const back = connected && !this.#connected;
    this.#connected = connected;
    this.update();
    if (!back) return;
    // The view's script failed to load, and a browser may not request it again.
    if (!this.#view) location.reload();
    else if (this.#error) this.#load(new Set());
  }

  /** Show an error. After a 401, show the lock instead of the view. */
  #refused(error) {
    this.#error = error;
    this.#locked = error instanceof Refusal && error.status === 401;
    if (!this.#locked) return;
    this.#listening?.abort();
    this.#leave();
    this.#module = "";
    this.cluster = { ...UNKNOWN };
    this.update();
    document.querySelector("main input[name=token]")?.focus();
  }

  /** Cancel the requests of the current view, and remove it. */
  #leave() {
    this.#reading?.abort();
    this.#busy = false;
    clearTimeout(this.#again);
    this.#view?.leave?.();
    this.#view = undefined;
  }

  async #readCluster() {
    this.#clusterRead = performance.now();
    const cluster = await get("/cluster");
    this.#clusterRead = performance.now();
    // The machine that serves the page may have no agent.
    const { host, hosts } = cluster;
    this.cluster = { ...cluster, host: hosts.includes(host) ? host : (hosts[0] ?? host) };
  }

  get now() {
    return this.cluster.now + (performance.now() - this.#clusterRead) / 1000;
  }

  go(params, { path = this.path, replace = false, fresh = false } = {}) {
    const merged = path === this.path && !fresh ? { ...this.params, ...params } : params;
    history[replace ? "replaceState" : "pushState"]({}, "", address(path, merged));
    this.#navigated();
  }

  href(path, params = {}) {
    return address(path, { host: this.params.host, ...params });
  }

  notify(text, kind = "info") {
    this.#message = { text, kind };
    clearTimeout(this.#messageTimer);
    this.#messageTimer = setTimeout(() => {
      this.#message = undefined;
      this.update();
    }, MESSAGE_MS);
    this.update();
  }

  update() {
    const focused = document.activeElement;
    render(this.#template(), document.body);
    // Moving an element, such as a row with a new rank, removes its focus.
    if (document.activeElement === document.body && focused.isConnected) focused.focus({ preventScroll: true });
  }

  async reload() {
    await this.#load(new Set(this.#view?.topics));
  }

  #navigated() {
    const { path, params } = read();
    this.path = path;
    this.params = params;
    if (this.#locked) this.update(); // a locked page shows no view
    else this.#show();
  }

  /** Switch to another host; selections of the previous one do not apply to it. */
  #hosted(host) {
    this.go({ host, at: this.params.at, from: this.params.from, to: this.params.to }, { fresh: true });
  }

  #clicked(event) {
    const link = event.target.closest?.("a[href]");
    if (event.defaultPrevented || !link || link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    if (!VIEWS.some((view) => view.path === link.pathname)) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    this.#navigated();
  }

  async #show() {
    const before = this.#module;
    const { module, title } = VIEWS.find((view) => view.path === this.path);
    document.title = `${title} - laggard`;
    if (module !== this.#module) {
      this.#leave();
      this.#module = module;
      this.#error = undefined;
      const View = await this.#import(module);
      // The viewer has switched to another view in the meantime, or away and back.
      if (!View || this.#module !== module || this.#view) return;
      this.#view = new View(this);
    }
    await this.#load(new Set());
    if (before && before !== module && this.#module === module) this.#arrive();
  }

  async #import(module) {
    try {
      return (await import(`./views/${module}.js`)).default;
    } catch (error) {
      console.error(error);
      if (this.#module !== module) return undefined;
      this.#error = new Refusal(0, "Cannot load this view", "a running `laggard up` or `laggard serve`");
      this.update();
      return undefined;
    }
  }

  /** Move the focus to the heading of a new view, for screen readers and Tab. */
  #arrive() {
    const heading = document.querySelector("main h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  /**
   * Request the view's data. `news` are the topics with new records, empty if only the address has changed. The next
   * load, or leaving the view, aborts the signal.
   */
  async #load(news) {
    if (!this.#view) return;
    this.#reading?.abort();
    clearTimeout(this.#again);
    const { signal } = (this.#reading = new AbortController());
    this.#busy = true;
    this.#stale.clear();
    this.#lastRead = performance.now();
    try {
      if (news.size && (!this.cluster.hosts.length || this.#lastRead - this.#clusterRead > CLUSTER_MS)) await this.#readCluster();
      await this.#view.load(signal, news);
      if (signal.aborted) return;
      this.#error = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.#refused(error);
      if (!(error instanceof Refusal)) console.error(error);
      else if (!this.#locked && (error.status === 0 || error.status >= 500)) this.#again = setTimeout(() => this.#load(new Set(news)), AGAIN_MS);
    }
    this.#busy = false;
    this.update();
    this.#grown([]);
  }

  /** Load new records after the current load: aborting slow loads for new records would starve the view. */
  #grown(topics) {
    const wanted = this.#view?.topics ?? [];
    for (const topic of topics) if (wanted.includes(topic)) this.#stale.add(topic);
    if (!this.#stale.size || this.#timer || this.#busy) return;
    const wait = Math.max(0, this.#lastRead + REFRESH_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#stale.size && !document.hidden && !this.#busy) this.#load(new Set(this.#stale));
    }, wait);
  }

  #themed(theme) {
    store(THEME, theme === "auto" ? undefined : theme);
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    window.dispatchEvent(new Event("laggard-theme"));
  }

  async #unlock(event) {
    event.preventDefault();
    if (await this.#opened(new FormData(event.target).get("token"))) await this.#open();
  }

  /** Open a session if the address is the link that laggard prints at its first start. */
  async #followed() {
    const token = tokenOfLink();
    if (token && (await this.#opened(token))) await this.#open();
  }

  /** Open a session with a token; show a message if that fails. */
  async #opened(token) {
    try {
      await openSession(token);
    } catch (error) {
      this.notify(error.message, "error");
      return false;
    }
    this.#message = undefined;
    return true;
  }

  async #end() {
    try {
      await endSession();
    } catch (error) {
      this.notify(error.message, "error");
      return;
    }
    await this.#open();
  }

  #template() {
    return html`
      <a class="skip" href="#main" @click=${skip}>Skip to content</a>
      <header class="shell">
        <a class="brand" href=${this.href("/")}><img src="/assets/icon.svg" alt="" width="22" height="22" />laggard</a>
        <nav aria-label="Views">
          ${VIEWS.map(
            (view) => html`<a href=${this.href(view.path)} aria-current=${view.path === this.path ? "page" : nothing}>${view.title}</a>`,
          )}
        </nav>
        <div class="shell-end">
          <span class="live ${this.#connected ? "" : "lost"}" role="status">${this.#connected ? "" : "disconnected, retrying"}</span>
          ${this.cluster.hosts.length > 1
            ? html`<label class="host"><span>Host</span>
                <select .value=${live(this.params.host || this.cluster.host)} @change=${(event) => this.#hosted(event.target.value)}>
                  ${this.cluster.hosts.map(
                    (host) => html`<option value=${host} ?selected=${host === (this.params.host || this.cluster.host)}>${host}</option>`,
                  )}
                </select></label>`
            : html`<span class="host">${this.cluster.hosts[0] ?? ""}</span>`}
          ${this.cluster.who ? html`<span class="who">${this.cluster.who}</span>` : nothing}
          ${this.cluster.session ? html`<button @click=${() => this.#end()}>Lock</button>` : nothing}
          <label class="theme"><span class="unseen">Colors</span>
            <select @change=${(event) => this.#themed(event.target.value)}>
              ${Object.entries(THEMES).map(
                ([name, label]) => html`<option value=${name} ?selected=${name === (document.documentElement.dataset.theme ?? "auto")}>${label}</option>`,
              )}
            </select></label>
        </div>
      </header>
      <main id="main" tabindex="-1" class="view-${this.#module}">${this.#locked ? this.#lock() : this.#shown()}</main>
      <div class="message" role="status">${this.#message ? html`<p class=${this.#message.kind}>${sentence(this.#message.text)}</p>` : nothing}</div>
    `;
  }

  #shown() {
    const error = this.#error;
    if (error && !(this.#view?.shows?.() ?? false)) {
      return html`<section class="empty" role="alert">
        <h1>${sentence(error.message)}</h1>
        ${error.expected ? html`<p>Expected: ${sentence(error.expected)}</p>` : nothing}
      </section>`;
    }
    return html`${error ? html`<p class="error" role="alert">${sentence(error.message)}</p>` : nothing}${this.#view?.render() ?? nothing}`;
  }

  #lock() {
    if (!this.#error.challenge) {
      return html`<section class="empty" role="alert">
        <h1>Not authenticated</h1>
        <p>Expected: ${sentence(this.#error.expected)}</p>
      </section>`;
    }
    return html`<section class="empty lock">
      <h1>Token required</h1>
      <form @submit=${(event) => this.#unlock(event)}>
        <input name="username" autocomplete="username" value="laggard" hidden />
        <label>Token <input name="token" type="password" autocomplete="current-password" required /></label>
        <button>Open</button>
      </form>
      <p>
        The token is the setting <code>serve.token</code>, or <code>serve.read_token</code> to view only. If neither is set, it is in the file
        <code>serve.token</code> of laggard's state directory: <code>sudo cat /var/lib/laggard/serve.token</code>
      </p>
    </section>`;
  }
}

/** The token of the link that laggard prints at its first start; removed from the address and the history. */
function tokenOfLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

/** Move the focus to the content without changing the address, which has the state of the view. */
function skip(event) {
  event.preventDefault();
  document.querySelector("#main").focus();
}

new Page().start();
