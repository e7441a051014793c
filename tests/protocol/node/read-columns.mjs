// Reads the columns of a release, knowing only docs/wire-format.md. Prints the contract, then each column, as lines of JSON.
//
//   node read-columns.mjs file FILE                           values of records, each after its length in 4 bytes, big-endian
//   node read-columns.mjs kafka HOST:PORT TOPIC GROUP COUNT   what is committed to a topic, until COUNT columns have come

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { decode } from "@msgpack/msgpack";
import { Kafka, logLevel } from "kafkajs";

function expect(holds, what) {
  if (!holds) throw new Error(`expected ${what}`);
}

function unpackSymbols(data, bits, rows) {
  const symbols = new Uint8Array(rows);
  const perByte = 8 / bits;
  const mask = (1 << bits) - 1;
  for (let row = 0; row < rows; row++) {
    const shift = 8 - bits * ((row % perByte) + 1);
    symbols[row] = (data[Math.floor(row / perByte)] >> shift) & mask;
  }
  return symbols;
}

class Columns {
  constructor(print) {
    this.print = print;
    this.contract = null;
    this.count = 0;
    this.present = 0; // open study: rows that are present
    this.numbered = 0; // open study: rows that have entered so far
    this.begin();
  }

  begin() {
    this.rows = 0;
    this.symbols = [];
    this.hash = createHash("sha256");
  }

  add(value) {
    const record = decode(value);
    expect(record.v === 1, "version 1");
    if (record.type === "contract") {
      expect(this.contract === null, "one contract");
      this.contract = record;
      this.isOpen = record.tenure !== undefined;
      const people = this.isOpen ? { tenure: record.tenure } : { n: record.n };
      this.print({ type: "contract", release: record.release, kind: record.kind, ...people, n_star: record.n_star });
    } else if (record.type === "column") {
      this.addChunk(record);
    } else {
      // The rest of a long contract, and who is present, which somebody knows who has read all columns.
      expect(record.type === "matrices" || record.type === "snapshot", "a contract, its matrices, a column or a snapshot");
    }
  }

  addChunk(chunk) {
    expect(this.contract !== null, "the contract first");
    expect(chunk.release === this.contract.release, "one release");
    expect(chunk.period === this.count + 1, "columns in order");
    if (this.isOpen) {
      expect(chunk.before === this.numbered, "new rows to be numbered on");
      expect(chunk.total === this.present + chunk.entrants, "an entry for everybody present and for those who enter");
    } else {
      expect(chunk.total === this.contract.n_star, "as many rows as the contract says");
    }
    expect(chunk.first === this.rows, "chunks in order");
    expect([1, 2, 4, 8].includes(chunk.bits), "1, 2, 4 or 8 bits");
    expect(chunk.data.length === Math.ceil((chunk.rows * chunk.bits) / 8), "a byte for every 8 bits");
    this.hash.update(chunk.data);
    for (const symbol of unpackSymbols(chunk.data, chunk.bits, chunk.rows)) {
      expect(symbol < this.contract.alphabet.length + (this.isOpen ? 1 : 0), "a symbol of the alphabet");
      this.symbols.push(symbol);
    }
    this.rows += chunk.rows;
    if (this.rows === chunk.total) this.finish(chunk);
  }

  finish(chunk) {
    // The code after the last symbol says that a row of an open study has left.
    const text = this.symbols.map((symbol) => this.contract.alphabet[symbol] ?? null);
    const digest = this.hash.digest("hex");
    if (this.isOpen) {
      const stayed = text.slice(0, chunk.total - chunk.entrants).filter((symbol) => symbol !== null).length;
      expect(!text.slice(chunk.total - chunk.entrants).includes(null), "nobody to leave who has just entered");
      this.present = stayed + chunk.entrants;
      this.numbered += chunk.entrants;
    }
    this.print({ type: "column", release: chunk.release, period: chunk.period, rows: this.rows, digest, symbols: text });
    this.count += 1;
    this.begin();
  }
}

function* valuesOf(file) {
  const bytes = readFileSync(file);
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    yield bytes.subarray(at + 4, at + 4 + length);
    at += 4 + length;
  }
}

async function follow(broker, topic, group, count, columns) {
  const kafka = new Kafka({ brokers: [broker], logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId: group, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      try {
        if (columns.count < count) columns.add(message.value);
        if (columns.count === count) resolve();
      } catch (error) {
        reject(error);
      }
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  await consumer.disconnect();
}

const [how, ...rest] = process.argv.slice(2);
const columns = new Columns((line) => console.log(JSON.stringify(line)));
if (how === "file") {
  for (const value of valuesOf(rest[0])) columns.add(value);
} else if (how === "kafka") {
  const [broker, topic, group, count] = rest;
  await follow(broker, topic, group, Number(count), columns);
} else {
  console.error("usage: read-columns.mjs file FILE | kafka HOST:PORT TOPIC GROUP COUNT");
  process.exitCode = 2;
}
