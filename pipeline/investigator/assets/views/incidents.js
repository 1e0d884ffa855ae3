/** Incidents: the list of them, or all that is known of one. */

import List from "./incidents/list.js";
import One from "./incidents/one.js";

export default class View {
  topics = ["anomalies", "diagnoses"];
  #shown;

  constructor(page) {
    this.page = page;
  }

  async load(signal, news) {
    const Wanted = this.page.params.id ? One : List;
    if (!(this.#shown instanceof Wanted)) {
      this.#shown?.leave?.();
      this.#shown = new Wanted(this.page);
    }
    await this.#shown.load(signal, news);
  }

  shows() {
    return this.#shown?.shows() ?? false;
  }

  render() {
    return this.#shown.render();
  }

  leave() {
    this.#shown?.leave?.();
  }
}
