// Requests to the server, with retries. Times are by the server's clock, not by the browser's.

const RETRY_PAUSES_MS = [200, 1000]; // pauses before a request that failed in the network is repeated
const TIMEOUT_MS = 20_000;
const RECORDS_TIMEOUT_MS = 60_000; // a response of records may have some megabytes

let clockOffset = 0; // milliseconds from the browser's clock to the server's

export const now = () => Date.now() + clockOffset;

// A random pause between half and one and a half times the given one, so that pages do not send requests at once.
export const addJitter = (pause) => pause * (0.5 + Math.random());

// The server did not respond, or is overloaded. This says nothing about the data that it serves.
export class RequestFailed extends Error {
  constructor(message, retryAfter = 0) {
    super(message);
    this.retryAfter = retryAfter; // milliseconds to wait, as the server asks
  }
}

// A browser whose network changes drops its requests, so a request that failed in the network is repeated.
async function fetchWithRetry(address, options, read, timeout) {
  for (const pause of [...RETRY_PAUSES_MS, null]) {
    try {
      const response = await fetch(`/api/v1/${address}`, { ...options, signal: AbortSignal.timeout(timeout) });
      if (response.status === 429 || response.status >= 500) throw new RequestFailed("The server cannot respond now", 1000 * Number(response.headers.get("Retry-After")) || 0);
      return [response, await read(response)];
    } catch (error) {
      if (error.name === "TimeoutError") throw new RequestFailed("The server does not respond");
      if (error instanceof SyntaxError) throw new RequestFailed("The server’s response is incomplete");
      if (!(error instanceof TypeError)) throw error;
      if (pause === null) throw new RequestFailed("The server cannot be reached");
      await new Promise((resolve) => setTimeout(resolve, addJitter(pause)));
    }
  }
}

export async function getJson(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const address = `${path}${query ? `?${query}` : ""}`;
  const [response, found] = await fetchWithRetry(address, { headers: { Accept: "application/json" } }, (response) => response.json(), TIMEOUT_MS);
  const date = Date.parse(response.headers.get("Date"));
  if (!Number.isNaN(date) && Math.abs(date - now()) > 2000) clockOffset = date - Date.now();
  if (!response.ok) throw new Error(found.error);
  return found;
}

// Reloads the page's data soon if a request of the reader fails.
export function reloadOnFailure(request) {
  request.catch(() => dispatchEvent(new Event("stale")));
}

// Yields the records of a public topic, unchanged, from the first on.
export async function* records(topic) {
  let offset = 0;
  let end = Infinity;
  while (offset < end) {
    const [response, bytes] = await fetchWithRetry(`records/${topic}?offset=${offset}`, { cache: "no-store" }, (response) => response.arrayBuffer(), RECORDS_TIMEOUT_MS);
    if (!response.ok || !response.headers.has("Streamproc-End")) throw new RequestFailed("The server does not return the records");
    const batch = new Uint8Array(bytes);
    const view = new DataView(batch.buffer);
    for (let position = 0; position < batch.length; ) {
      const length = view.getUint32(position);
      if (position + 4 + length > batch.length) throw new Error("a response was cut short");
      yield batch.subarray(position + 4, position + 4 + length);
      position += 4 + length;
    }
    const next = Number(response.headers.get("Streamproc-Next"));
    end = Number(response.headers.get("Streamproc-End"));
    if (!(next > offset) && offset < end) throw new Error("the records do not continue");
    offset = next;
  }
}
