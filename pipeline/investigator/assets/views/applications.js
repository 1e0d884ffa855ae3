import { html } from "../packages/lit-html/lit-html.js";

export default class View {
  topics = [];

  constructor(page) {
    this.page = page;
  }

  async load(signal) {}

  render() {
    return html`<h1>applications</h1>`;
  }
}
