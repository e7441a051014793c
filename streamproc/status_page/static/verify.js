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

const SUMMARY_EVERY = 128; // an open study has a summary and snapshots in every period that is a multiple of this

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
    this.rows = {}; // by release: synthetic people; in an open study those so far, after periods 1, 2, ...
    this.snapshots = {}; // by release: digests of its snapshots, by period
    this.isOpen = false;
    this.over = false; // whether an open study has ended
    this.abandoned = 0;
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
      this.head = this.studyDigest = await sha256(value);
      this.study = record.study.get("name");
      const population = record.study.get("population");
      this.isOpen = population instanceof Map && population.get("open") === true;
      this.horizon = record.study.get("horizon");
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
    this.expect(!this.over, "comes after the last period of the study");
    this.expect(period === this.next, `announces period ${period}, but ${this.next} is next`);
    if (!this.intents.includes(digest)) this.intents.push(digest);
  }

  addMeasurement(chunk) {
    this.expect(!this.over, "comes after the last period of the study");
    this.expect(chunk.period === this.next, `measures period ${chunk.period}, but ${this.next} is next`);
    const parts = this.measured.get(chunk.release) ?? [];
    const count = parts.reduce((sum, part) => sum + part.length / 8, 0);
    this.expect(chunk.first === count, `has measurements from ${chunk.first} on, but ${count} is next`);
    this.measured.set(chunk.release, [...parts, chunk.data]);
  }

  async addPeriod(record, digest) {
    this.expect(!this.over, "comes after the last period of the study");
    this.expect(record.period === this.next, `is for period ${record.period}, but ${this.next} is next`);
    this.expect(hex(record.previous) === this.head, "is not chained to the record before it");
    this.expect(this.isOpen || !record.last, "is marked as the last, but only an open study can end early");
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
    this.abandoned += abandoned.length;
    this.checkSummary(record);
    this.over = this.isOpen && (record.last === true || record.period === this.horizon);
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
    if (this.isOpen) {
      const rows = (this.rows[name] ??= []);
      this.expect(entry.n_star >= (rows.at(-1) ?? 0) && entry.n_star !== null, `states fewer synthetic people of ${name} than there were`);
      rows.push(entry.n_star);
      return;
    }
    this.expect(this.rows[name] === undefined || this.rows[name] === entry.n_star, `changes the number of synthetic people of ${name}`);
    if (entry.n_star !== null) this.rows[name] = entry.n_star;
  }

  // A summary repeats what earlier records say. Its estimates are not recomputed here.
  checkSummary(record) {
    const due = this.isOpen && record.period % SUMMARY_EVERY === 0;
    this.expect((record.summary !== undefined) === due, "lacks a summary that is due, or has one that is not");
    if (!due) return;
    const summary = record.summary;
    this.expect(hex(summary.get("study")) === this.studyDigest && summary.get("abandoned") === this.abandoned, "has a summary of other records");
    const releases = summary.get("releases");
    this.expect([...releases.keys()].sort().join() === this.names, "has a summary of other releases");
    for (const [name, entry] of releases) {
      this.expect(hex(entry.get("contract")) === this.contracts[name], `has a summary that states another contract of ${name}`);
      (this.snapshots[name] ??= {})[record.period] = { digest: hex(entry.get("snapshot")), present: entry.get("present") };
    }
  }
}

// The number of rows that leave, of the entries of a column of an open study; throws if one leaves that has just entered.
function countLeavers(parts, bits, leaves, entries, entrants, where) {
  const data = concatenate(parts);
  const mask = (1 << bits) - 1;
  let left = 0;
  for (let place = 0; place < entries; place++) {
    const bit = place * bits;
    const code = (data[bit >> 3] >> (8 - bits - (bit & 7))) & mask;
    expect(code <= leaves, `${where}: an entry is not a symbol`);
    if (code !== leaves) continue;
    expect(place < entries - entrants, `${where}: somebody leaves who has just entered`);
    left += 1;
  }
  return left;
}

// Verifies the contract, the columns and the snapshots of one release against the ledger. Columns after its last period are ignored.
// A column of an open study has an entry for everybody who was present before, and for everybody who enters.
export async function verifyColumns(name, ledger, values, onColumn) {
  const [contract, digests, snapshots] = [ledger.contracts[name], ledger.columns[name], ledger.snapshots[name] ?? {}];
  const begun = []; // the values of the contract's records: the contract, and its matrices if they do not fit into it
  let leaves = 0; // the code of a row that leaves
  let parts = [];
  let row = 0;
  let done = 0;
  let present = 0; // open study: rows present after the columns so far
  let numbered = 0; // open study: rows that have entered so far
  let snapshot = null; // the chunks of the snapshot that is due: {parts, row}
  for await (const value of values) {
    const record = decodeRecord(value, `a record of ${name}`);
    if (record.type === "contract" || record.type === "matrices") {
      const inPlace = (record.type === "contract") === (begun.length === 0) && done === 0 && row === 0;
      expect(inPlace && record.release === name, `${name}: a second contract, or matrices without one`);
      if (record.type === "contract") {
        expect((record.tenure !== undefined) === ledger.isOpen, `${name}: its contract is not that of such a study`);
        leaves = record.alphabet.length;
      }
      begun.push(value);
      continue;
    }
    if (snapshot !== null) {
      const place = `${name}, snapshot of period ${done}`;
      const follows = record.type === "snapshot" && record.release === name && record.period === done && record.first === snapshot.row && record.total === present;
      expect(follows, `${place}: it is missing, or a part of it`);
      snapshot.parts.push(record.numbers, record.states, record.ages);
      snapshot.row += record.ages.length / 2;
      expect(record.ages.length > 0 || present === 0, `${place}: a part of it is missing`);
      if (snapshot.row < present) continue;
      expect((await sha256(concatenate(snapshot.parts))) === snapshots[done].digest, `${place}: its digest is not the one in the ledger`);
      snapshot = null;
      onColumn(done);
      continue;
    }
    if (done === digests.length) return done;
    const where = `${name}, period ${done + 1}`;
    expect(begun.length > 0 && record.type === "column" && record.release === name, `${where}: not a column after a contract`);
    if (done === 0 && row === 0) expect((await sha256(concatenate(begun))) === contract, `${name}: its contract is not the one that the ledger states`);
    const entrants = ledger.isOpen ? ledger.rows[name][done] - numbered : 0;
    const total = ledger.isOpen ? present + entrants : ledger.rows[name];
    expect(record.period === done + 1 && record.first === row && record.total === total, `${where}: rows are missing`);
    expect(!ledger.isOpen || (record.before === numbered && record.entrants === entrants), `${where}: other rows enter than the ledger says`);
    expect(record.rows > 0 || total === 0, `${where}: rows are missing`);
    expect(record.data.length === Math.ceil((record.rows * record.bits) / 8), `${where}: rows are missing`);
    parts.push(record.data);
    row += record.rows;
    if (row < total) continue;
    expect((await sha256(concatenate(parts))) === digests[done], `${where}: the digest of the column is not the one in the ledger`);
    if (ledger.isOpen) {
      present = total - countLeavers(parts, record.bits, leaves, total, entrants, where);
      numbered += entrants;
    }
    [parts, row, done] = [[], 0, done + 1];
    if (snapshots[done] !== undefined) {
      expect(snapshots[done].present === present, `${where}: the summary in the ledger states another number of people`);
      snapshot = { parts: [], row: 0 };
    } else onColumn(done);
  }
  expect(done === digests.length && snapshot === null, `${name}: the ledger has ${digests.length} columns, its topic ${done}`);
  return done;
}
