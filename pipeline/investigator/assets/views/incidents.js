/** Incidents: the list, or one of them. Links of alerts have a time instead of an id. */

import { nothing } from "../packages/lit-html/lit-html.js";
import List from "./incidents/list.js";
import One from "./incidents/one.js";
import { find } from "./incidents/finding.js";

export default class View {
  topics = ["anomalies", "diagnoses"];
  #shown;

  constructor(page) {
    this.page = page;
  }

  async load(signal, news) {
    const id = await find(this.page.params, signal);
    if (id) {
      this.page.go({ id, at: undefined }, { replace: true });
      return;
    }
    const Wanted = this.page.params.id ? One : List;
    const wanted = this.#shown instanceof Wanted ? this.#shown : new Wanted(this.page);
    try {
      await wanted.load(signal, news);
    } catch (error) {
      if (wanted !== this.#shown) wanted.leave?.();
      throw error;
    }
    if (wanted !== this.#shown) this.#shown?.leave?.();
    this.#shown = wanted;
  }

  shows() {
    return this.#shown?.shows() ?? false;
  }

  render() {
    return this.#shown?.render() ?? nothing;
  }

  leave() {
    this.#shown?.leave?.();
  }
}
