// Listens for news, and goes on trying when the server is away.

const LONGEST = 10_000;

export class Live {
  constructor(onNews, onState) {
    this.onNews = onNews;
    this.onState = onState;
    this.pause = 500;
    this.open();
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
      setTimeout(() => this.again(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST);
    });
  }

  again() {
    this.onNews();
    this.open();
  }
}
