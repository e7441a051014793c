// Verifies a ledger and its columns from the bytes of the topics, as docs/wire-format.md specifies. Throws at the first error.

import { unpack } from "/static/msgpack.js";
import { concatenate, hex, sha256 } from "/static/sha256.js";

function expect(holds, problem) {
  if (!holds) throw new Error(problem);
}

function decodeRecord(value, where) {
  try {
    return unpack(value);
  } catch (error) {
    throw new Error(`${where} is malformed: ${error.message}`);
  }
}

// Whether one cost is at most the other, up to the rounding of costs to 64-bit floats.
const atMost = (left, right) => left <= right * (1 + 1e-12) + 1e-18;

export class LedgerVerifier {
  constructor() {
    this.records = 0;
    this.bytes = 0;
    this.head = null;
    this.periods = []; // {digest, previous, rhoSpent} of periods 1, 2, ...
    this.columns = {}; // by release: digests of periods 1, 2, ...
    this.contracts = {}; // by release: the digest of its contract
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
    const record = decodeRecord(value, this.where);
    this.expect((record.type === "study") === (this.records === 0), "the study record must be the first, and the only one");
    if (record.type === "study") {
      this.head = await sha256(value);
      this.study = record.study.get("name");
    } else if (record.type === "intent") this.addIntent(record.period, hex(record.digest));
    else if (record.type === "measurement") this.addMeasurement(record);
    else if (record.type === "period") await this.addPeriod(record, await sha256(value));
    else this.expect(false, "has an unknown type");
    this.records += 1;
    this.bytes += value.length;
  }

  expect(holds, problem) {
    expect(holds, `${this.where}: ${problem}`);
  }

  addIntent(period, digest) {
    if (period === this.next - 1 && digest === this.head) return; // the intent was repeated after its period
    this.expect(period === this.next, `announces period ${period}, but ${this.next} is next`);
    if (!this.intents.includes(digest)) this.intents.push(digest);
  }

  addMeasurement(chunk) {
    this.expect(chunk.period === this.next, `measures period ${chunk.period}, but ${this.next} is next`);
    const parts = this.measured.get(chunk.release) ?? [];
    const count = parts.reduce((sum, part) => sum + part.length / 8, 0);
    this.expect(chunk.first === count, `has measurements from ${chunk.first} on, but ${count} is next`);
    this.measured.set(chunk.release, [...parts, chunk.data]);
  }

  async addPeriod(record, digest) {
    this.expect(record.period === this.next, `is for period ${record.period}, but ${this.next} is next`);
    this.expect(hex(record.previous) === this.head, "is not chained to the record before it");
    const abandoned = record.abandoned.map(hex);
    this.expect(abandoned.every((lost) => this.intents.includes(lost)), "abandons a draw that was never announced");
    const binding = this.intents.filter((intent) => !abandoned.includes(intent));
    this.expect(binding.length === 1 && binding[0] === digest, "is not the one draw that was announced");
    const names = [...record.releases.keys()].sort().join();
    this.expect(this.periods.length === 0 || names === this.names, "has other releases than the record before it");
    this.names = names;
    let total = 0;
    for (const [name, fields] of record.releases) {
      await this.addRelease(name, Object.fromEntries(fields));
      total += this.spent[name];
    }
    this.expect([...this.measured.keys()].every((name) => record.releases.has(name)), "lacks a release that was measured");
    this.expect(atMost(total, record.rho_spent) && atMost(record.rho_spent, total), "states a total that does not add up");
    this.periods.push({ digest, previous: this.head, rhoSpent: record.rho_spent });
    [this.head, this.intents, this.measured] = [digest, [], new Map()];
  }

  async addRelease(name, entry) {
    const numbers = concatenate(this.measured.get(name) ?? []);
    this.expect((await sha256(numbers)) === hex(entry.measurements), `does not match the measurements of ${name}`);
    const before = this.spent[name] ?? 0;
    this.expect(before <= entry.rho_spent && atMost(entry.rho_spent, before + entry.rho), `misstates the spending of ${name}`);
    this.spent[name] = entry.rho_spent;
    const out = (this.columns[name] ??= []);
    const periods = entry.columns.map(([period]) => period);
    this.expect((entry.contract !== undefined) === (out.length === 0 && periods.length > 0), `must state the contract of ${name} with its first column, and only there`);
    if (entry.contract !== undefined) this.contracts[name] = hex(entry.contract);
    const expected = periods.length || out.length ? this.next - out.length : 0;
    const inOrder = periods.every((period, index) => period === out.length + index + 1);
    this.expect(periods.length === expected && inOrder, `lacks a column of ${name}, or has one too many`);
    out.push(...entry.columns.map(([, digest]) => hex(digest)));
    this.expect(this.rows[name] === undefined || this.rows[name] === entry.n_star, `changes the number of synthetic people of ${name}`);
    if (entry.n_star !== null) this.rows[name] = entry.n_star;
  }
}

// Verifies the contract and the columns of one release against the digests of the ledger. Columns after these digests are ignored.
export async function verifyColumns(name, contract, digests, rows, values, onColumn) {
  const begun = []; // the values of the contract's records: the contract, and its matrices if they do not fit into it
  let parts = [];
  let row = 0;
  let done = 0;
  for await (const value of values) {
    const record = decodeRecord(value, `a record of ${name}`);
    if (record.type === "contract" || record.type === "matrices") {
      const inPlace = (record.type === "contract") === (begun.length === 0) && done === 0 && row === 0;
      expect(inPlace && record.release === name, `${name}: a second contract, or matrices without one`);
      begun.push(value);
      continue;
    }
    if (done === digests.length) return done;
    const where = `${name}, period ${done + 1}`;
    expect(begun.length > 0 && record.type === "column" && record.release === name, `${where}: not a column after a contract`);
    if (done === 0 && row === 0) expect((await sha256(concatenate(begun))) === contract, `${name}: its contract is not the one that the ledger states`);
    expect(record.period === done + 1 && record.first === row && record.total === rows, `${where}: rows are missing`);
    expect(record.rows > 0 || rows === 0, `${where}: rows are missing`);
    expect(record.data.length === Math.ceil((record.rows * record.bits) / 8), `${where}: rows are missing`);
    parts.push(record.data);
    row += record.rows;
    if (row < rows) continue;
    expect((await sha256(concatenate(parts))) === digests[done], `${where}: the digest of the column is not the one in the ledger`);
    [parts, row, done] = [[], 0, done + 1];
    onColumn(done);
  }
  expect(done === digests.length, `${name}: the ledger has ${digests.length} columns, its topic ${done}`);
  return done;
}
