// What the server says. Its clock counts, not the reader's.

const PAUSES = [200, 1000]; // milliseconds before a lost question is asked again
const [PATIENCE, LONG_PATIENCE] = [20_000, 60_000]; // milliseconds for an answer, and for one of some megabytes

let ahead = 0;

export const now = () => Date.now() + ahead;

// Not all pages at once.
export const scattered = (pause) => pause * (0.5 + Math.random());

// The server did not answer, or has no time now. Nothing follows from that for what it serves.
export class Unanswered extends Error {
  constructor(message, after = 0) {
    super(message);
    this.after = after; // milliseconds that the server wants to be left alone
  }
}

// A browser whose network changes drops what is under way: a lost question is asked again before anybody has to know.
async function got(address, options, read, patience) {
  for (const pause of [...PAUSES, null]) {
    try {
      const answer = await fetch(`/api/v1/${address}`, { ...options, signal: AbortSignal.timeout(patience) });
      if (answer.status === 429 || answer.status >= 500) throw new Unanswered("The server has no time to answer now", 1000 * Number(answer.headers.get("Retry-After")) || 0);
      return [answer, await read(answer)];
    } catch (error) {
      if (error.name === "TimeoutError") throw new Unanswered("The server does not answer");
      if (error instanceof SyntaxError) throw new Unanswered("The server’s answer does not come through");
      if (!(error instanceof TypeError)) throw error;
      if (pause === null) throw new Unanswered("The server cannot be reached");
      await new Promise((resolve) => setTimeout(resolve, scattered(pause)));
    }
  }
}

export async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const address = `${path}${query ? `?${query}` : ""}`;
  const [answer, found] = await got(address, { headers: { Accept: "application/json" } }, (answer) => answer.json(), PATIENCE);
  const date = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(date) && Math.abs(date - now()) > 2000) ahead = date - Date.now();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// What a reader asked for and did not get is asked for with the next status.
export function orLater(answer) {
  answer.catch(() => dispatchEvent(new Event("stale")));
}

// The records of a public topic as they stand there, from its first.
export async function* records(topic) {
  let offset = 0;
  let end = Infinity;
  while (offset < end) {
    const [answer, bytes] = await got(`records/${topic}?offset=${offset}`, { cache: "no-store" }, (answer) => answer.arrayBuffer(), LONG_PATIENCE);
    if (!answer.ok || !answer.headers.has("Streamproc-End")) throw new Unanswered("The server does not give the records");
    const page = new Uint8Array(bytes);
    const view = new DataView(page.buffer);
    for (let place = 0; place < page.length; ) {
      const length = view.getUint32(place);
      if (place + 4 + length > page.length) throw new Error("an answer was cut short");
      yield page.subarray(place + 4, place + 4 + length);
      place += 4 + length;
    }
    const next = Number(answer.headers.get("Streamproc-Next"));
    end = Number(answer.headers.get("Streamproc-End"));
    if (!(next > offset) && offset < end) throw new Error("the records do not go on");
    offset = next;
  }
}
