// Listens for news, and goes on trying when the server is away.

import { scattered } from "/static/data.js";

const LONGEST = 10_000;

export class Live {
  constructor(onNews, onState) {
    this.onNews = onNews;
    this.onState = onState;
    this.pause = 500;
    this.open();
    // A browser gives one server six connections: pages that nobody looks at must not take them from those in sight.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.again()));
  }

  close() {
    clearTimeout(this.waiting);
    this.source.close();
  }

  open() {
    this.source = new EventSource("/api/v1/events");
    this.source.addEventListener("open", () => {
      this.pause = 500;
      this.onState("live");
    });
    this.source.addEventListener("news", () => this.onNews());
    // A browser may give up by itself, for instance when too many pages listen: close, and try again ourselves.
    this.source.addEventListener("error", () => {
      this.source.close();
      this.onState("away");
      this.waiting = setTimeout(() => this.again(), scattered(this.pause));
      this.pause = Math.min(2 * this.pause, LONGEST);
    });
  }

  again() {
    this.close();
    this.onNews();
    this.open();
  }
}
