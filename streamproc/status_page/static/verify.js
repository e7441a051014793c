// Walks a ledger and its columns as docs/wire-format.md says, from the bytes of the topics. Throws at the first thing amiss.

import { unpack } from "/static/msgpack.js";
import { hex, joined, sha256 } from "/static/sha256.js";

function expect(holds, problem) {
  if (!holds) throw new Error(problem);
}

function opened(value, where) {
  try {
    return unpack(value);
  } catch (error) {
    throw new Error(`${where} is malformed: ${error.message}`);
  }
}

// Costs are rounded up to 64-bit floats; beyond that they must add up.
const within = (left, right) => left <= right * (1 + 1e-12) + 1e-18;

export class LedgerWalk {
  constructor() {
    this.records = 0;
    this.bytes = 0;
    this.head = null;
    this.periods = []; // {digest, previous, rhoSpent} of periods 1, 2, ...
    this.columns = {}; // by release: digests of periods 1, 2, ...
    this.rows = {};
    this.spent = {};
    this.intents = [];
    this.measured = new Map();
  }

  get next() {
    return this.periods.length + 1;
  }

  async add(value) {
    this.where = `ledger record ${this.records}`;
    const record = opened(value, this.where);
    this.expect((record.type === "study") === (this.records === 0), "a study record comes first, and once");
    if (record.type === "study") {
      this.head = await sha256(value);
      this.study = record.study.get("name");
    } else if (record.type === "intent") this.announced(record.period, hex(record.digest));
    else if (record.type === "measurement") this.measurement(record);
    else if (record.type === "period") await this.closed(record, await sha256(value));
    else this.expect(false, "is of no known type");
    this.records += 1;
    this.bytes += value.length;
  }

  expect(holds, problem) {
    expect(holds, `${this.where}: ${problem}`);
  }

  announced(period, digest) {
    if (period === this.next - 1 && digest === this.head) return; // said again
    this.expect(period === this.next, `announces period ${period}, but ${this.next} is next`);
    if (!this.intents.includes(digest)) this.intents.push(digest);
  }

  measurement(chunk) {
    this.expect(chunk.period === this.next, `measures period ${chunk.period}, but ${this.next} is next`);
    const parts = this.measured.get(chunk.release) ?? [];
    const place = parts.reduce((sum, part) => sum + part.length / 8, 0);
    this.expect(chunk.first === place, `holds measurements from ${chunk.first} on, but ${place} is next`);
    this.measured.set(chunk.release, [...parts, chunk.data]);
  }

  async closed(record, digest) {
    this.expect(record.period === this.next, `is of period ${record.period}, but ${this.next} is next`);
    this.expect(hex(record.previous) === this.head, "is not chained to the record before it");
    const abandoned = record.abandoned.map(hex);
    this.expect(abandoned.every((lost) => this.intents.includes(lost)), "abandons a draw that was never announced");
    const binding = this.intents.filter((intent) => !abandoned.includes(intent));
    this.expect(binding.length === 1 && binding[0] === digest, "is not the one draw that was announced");
    const names = [...record.releases.keys()].sort().join();
    this.expect(this.periods.length === 0 || names === this.names, "has other releases than the one before");
    this.names = names;
    let total = 0;
    for (const [name, fields] of record.releases) {
      await this.release(name, Object.fromEntries(fields));
      total += this.spent[name];
    }
    this.expect([...this.measured.keys()].every((name) => record.releases.has(name)), "lacks a release that was measured");
    this.expect(within(total, record.rho_spent) && within(record.rho_spent, total), "states a total that does not add up");
    this.periods.push({ digest, previous: this.head, rhoSpent: record.rho_spent });
    [this.head, this.intents, this.measured] = [digest, [], new Map()];
  }

  async release(name, entry) {
    const numbers = joined(this.measured.get(name) ?? []);
    this.expect((await sha256(numbers)) === hex(entry.measurements), `does not match the measurements of ${name}`);
    const before = this.spent[name] ?? 0;
    this.expect(before <= entry.rho_spent && within(entry.rho_spent, before + entry.rho), `misstates the spending of ${name}`);
    this.spent[name] = entry.rho_spent;
    const out = (this.columns[name] ??= []);
    const periods = entry.columns.map(([period]) => period);
    const wanted = periods.length || out.length ? this.next - out.length : 0;
    const inOrder = periods.every((period, place) => period === out.length + place + 1);
    this.expect(periods.length === wanted && inOrder, `lacks a column of ${name}, or has one too many`);
    out.push(...entry.columns.map(([, digest]) => hex(digest)));
    this.expect(this.rows[name] === undefined || this.rows[name] === entry.n_star, `changes the people of ${name}`);
    if (entry.n_star !== null) this.rows[name] = entry.n_star;
  }
}

// The columns of one release against the digests of the ledger; a column that came after these is left for next time.
export async function walkColumns(name, digests, rows, values, onColumn) {
  let contract = null;
  let parts = [];
  let row = 0;
  let done = 0;
  for await (const value of values) {
    const record = opened(value, `a record of ${name}`);
    if (record.type === "contract") {
      expect(contract === null && record.release === name, `${name}: a second contract`);
      contract = record;
      continue;
    }
    if (done === digests.length) return done;
    const place = `${name}, period ${done + 1}`;
    expect(contract !== null && record.type === "column" && record.release === name, `${place}: not a column after a contract`);
    expect(record.period === done + 1 && record.first === row && record.total === rows, `${place}: rows are missing`);
    expect(record.rows > 0 || rows === 0, `${place}: rows are missing`);
    expect(record.data.length === Math.ceil((record.rows * record.bits) / 8), `${place}: rows are missing`);
    parts.push(record.data);
    row += record.rows;
    if (row < rows) continue;
    expect((await sha256(joined(parts))) === digests[done], `${place}: the column is not what the ledger says`);
    [parts, row, done] = [[], 0, done + 1];
    onColumn(done);
  }
  expect(done === digests.length, `${name}: the ledger has ${digests.length} columns, its topic ${done}`);
  return done;
}
