// What the server says. Its clock counts, not the reader's.

let ahead = 0;

export const now = () => Date.now() + ahead;

export async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const answer = await fetch(`/api/v1/${path}${query ? `?${query}` : ""}`, { headers: { Accept: "application/json" } });
  const date = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(date) && Math.abs(date - now()) > 2000) ahead = date - Date.now();
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// The records of a public topic as they stand there, from its first.
export async function* records(topic) {
  let offset = 0;
  let end = Infinity;
  while (offset < end) {
    const answer = await fetch(`/api/v1/records/${topic}?offset=${offset}`, { cache: "no-store" });
    if (!answer.ok) throw new Error("the records cannot be read now");
    const page = new Uint8Array(await answer.arrayBuffer());
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
