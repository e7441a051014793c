// What the server says. Its clock counts, not the reader's.

const PAUSES = [200, 1000]; // milliseconds before a question is asked again

let ahead = 0;

export const now = () => Date.now() + ahead;

// The server did not answer, or has no time now. Nothing follows from that for what it serves.
export class Unanswered extends Error {}

// A browser whose network changes drops what is under way: a lost question is asked again before anybody has to know.
async function got(address, options, read) {
  for (const pause of [...PAUSES, null]) {
    try {
      const answer = await fetch(`/api/v1/${address}`, options);
      return [answer, await read(answer)];
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      if (pause === null) throw new Unanswered("The server cannot be reached");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

export async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const address = `${path}${query ? `?${query}` : ""}`;
  const [answer, found] = await got(address, { headers: { Accept: "application/json" } }, (answer) => answer.json());
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
    const [answer, bytes] = await got(`records/${topic}?offset=${offset}`, { cache: "no-store" }, (answer) => answer.arrayBuffer());
    if (answer.status >= 500) throw new Unanswered("The server cannot read the topics now");
    if (!answer.ok) throw new Error("the server does not give the records");
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
