/** The page: its menu, the view that its address names, and what is new. */

import { endSession, get, openSession, proof, Refusal, SESSION } from "./api.js";
import "./chart.js";
import { listen } from "./live.js";
import { live } from "./packages/lit-html/directives/live.js";
import { html, nothing, render } from "./packages/lit-html/lit-html.js";
import { sentence } from "./sentence.js";
import { address, read, VIEWS } from "./state.js";
import { store } from "./storage.js";

/** A view that is live is read again at most so often. */
const REFRESH_MS = 1000;

/** Which hosts there are is asked again at most so often. */
const CLUSTER_MS = 60_000;

/** What could not be read for no fault of the question is asked for again after so long. */
const AGAIN_MS = 5000;

/** A page that laggard did not answer at all begins again after so long. */
const OPEN_AGAIN_MS = 2000;

/** What is said at the foot of the page goes after so long. */
const MESSAGE_MS = 8000;

const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
const THEME = "laggard.theme";

/** The cluster, until it is known, and when the page is locked again. */
const NOBODY = { host: "", hosts: [], version: "", now: 0, writes: false, who: "", session: false };

/**
 * What a view gets: the page around it.
 *
 * @typedef {object} Page
 * @property {Record<string, string>} params of the address
 * @property {{host: string, hosts: string[], version: string, now: number, writes: boolean, who: string, session: boolean}} cluster
 * @property {number} now by laggard's clock, from which the viewer's may differ: seconds since the Unix epoch
 * @property {(params: Record<string, any>, options?: {path?: string, replace?: boolean, fresh?: boolean}) => void} go
 *   changes parameters of the address (undefined takes one away; `fresh` takes all others away), and what is shown
 * @property {(path: string, params?: Record<string, any>) => string} href the address of another view; keeps the host
 * @property {() => void} update draws again what is there
 * @property {() => Promise<void>} reload reads again
 * @property {(text: string, kind?: "info"|"error") => void} notify tells something at the foot of the page
 */
class Page {
  cluster = { ...NOBODY };
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

  /** The connection has come or gone. What was missed is told as news once it is there. */
  #reached(connected) {
    const back = connected && !this.#connected;
    this.#connected = connected;
    this.update();
    if (!back) return;
    // Its script could not be had, and a browser may not ask for it again.
    if (!this.#view) location.reload();
    else if (this.#error) this.#load(new Set());
  }

  /** Show what went wrong; where nobody has said who asks, nothing else is shown any more. */
  #refused(error) {
    this.#error = error;
    this.#locked = error instanceof Refusal && error.status === 401;
    if (!this.#locked) return;
    this.#listening?.abort();
    this.#leave();
    this.#module = "";
    this.cluster = { ...NOBODY };
    this.update();
    document.querySelector("main input[name=token]")?.focus();
  }

  /** End what the view that was shown still reads, and the view. */
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
    // The machine that serves the page may be none of those that are watched.
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
    // What was moved in the page, as a row that has another rank now, has lost the focus by it.
    if (document.activeElement === document.body && focused.isConnected) focused.focus({ preventScroll: true });
  }

  async reload() {
    await this.#load(new Set(this.#view?.topics));
  }

  #navigated() {
    const { path, params } = read();
    this.path = path;
    this.params = params;
    if (this.#locked) this.update(); // nothing is shown before a person opens it
    else this.#show();
  }

  /** Another host: what was chosen on the one before is not there. */
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
      // Another was opened since; or this one, and there and back again.
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
      this.#error = new Refusal(0, "This view could not be loaded", "that `laggard up` or `laggard serve` runs");
      this.update();
      return undefined;
    }
  }

  /** After another view was opened: a screen reader, and Tab, go on from its heading. */
  #arrive() {
    const heading = document.querySelector("main h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  /**
   * Read; `news` are the topics that have grown, none where only the address has changed. The signal that the view gets
   * ends what it reads when it is asked to read again, or is left.
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

  /** What is new is read when what was asked for before is there: else nothing would be, where answers take long. */
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

  /** Open a session by the link that laggard prints once, where this is one. */
  async #followed() {
    const token = tokenOfLink();
    if (token && (await this.#opened(token))) await this.#open();
  }

  /** Open a session by a token; says so where that does not work. */
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
      <a class="skip" href="#main" @click=${skip}>Skip to what is shown</a>
      <header class="shell">
        <a class="brand" href=${this.href("/")}><img src="/assets/icon.svg" alt="" width="22" height="22" />laggard</a>
        <nav aria-label="Views">
          ${VIEWS.map(
            (view) => html`<a href=${this.href(view.path)} aria-current=${view.path === this.path ? "page" : nothing}>${view.title}</a>`,
          )}
        </nav>
        <div class="shell-end">
          <span class="live ${this.#connected ? "" : "lost"}" role="status">${this.#connected ? "" : "not connected; trying again"}</span>
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
          <label class="theme"><span class="unseen">Colours</span>
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
        <h1>Nobody has said who you are</h1>
        <p>Expected: ${sentence(this.#error.expected)}</p>
      </section>`;
    }
    return html`<section class="empty lock">
      <h1>A token is asked for here</h1>
      <form @submit=${(event) => this.#unlock(event)}>
        <input name="username" autocomplete="username" value="laggard" hidden />
        <label>Token <input name="token" type="password" autocomplete="current-password" required /></label>
        <button>Open</button>
      </form>
      <p>
        It is the setting <code>serve.token</code>, or <code>serve.read_token</code> to look only. Where neither is set, it is in the file
        <code>serve.token</code> in laggard's state directory: <code>sudo cat /var/lib/laggard/serve.token</code>
      </p>
    </section>`;
  }
}

/** The token of the link that laggard prints once; the address and the history forget it at once. */
function tokenOfLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

/** Go on from what is shown; the address stays, for it says what that is. */
function skip(event) {
  event.preventDefault();
  document.querySelector("#main").focus();
}

new Page().start();
