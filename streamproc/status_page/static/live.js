// Receives Server-Sent Events, and reconnects when the connection is lost.

import { addJitter } from "/static/data.js";

const MIN_PAUSE_MS = 500;
const MAX_PAUSE_MS = 10_000;

export class EventStream {
  constructor(onChange, onState) {
    this.onChange = onChange;
    this.onState = onState;
    this.pause = MIN_PAUSE_MS;
    this.open();
    // A browser opens at most six connections to a server, so hidden pages close theirs.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.reopen()));
  }

  close() {
    clearTimeout(this.timer);
    this.source.close();
  }

  open() {
    this.source = new EventSource("/api/v1/events");
    this.source.addEventListener("open", () => {
      this.pause = MIN_PAUSE_MS;
      this.onState("live");
    });
    this.source.addEventListener("news", () => this.onChange());
    // EventSource does not reconnect after some errors, for instance a 503, so it is closed and opened again here.
    this.source.addEventListener("error", () => {
      this.source.close();
      this.onState("away");
      this.timer = setTimeout(() => this.reopen(), addJitter(this.pause));
      this.pause = Math.min(2 * this.pause, MAX_PAUSE_MS);
    });
  }

  reopen() {
    this.close();
    this.onChange();
    this.open();
  }
}
