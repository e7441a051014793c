// Runs the page's verifier outside of a browser, on files of values, each after its length in 4 bytes, big-endian.
//
//   node verify-ledger.mjs FOLDER LEDGER [RELEASE FILE]...    FOLDER holds verify.js and what it imports
//
// Prints a line of JSON: the number of periods, whether the study has ended, the head, and the columns of each release.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

function* valuesOf(file) {
  const bytes = new Uint8Array(readFileSync(file));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at);
    yield bytes.subarray(at + 4, at + 4 + length);
    at += 4 + length;
  }
}

const [folder, chain, ...files] = process.argv.slice(2);
const { LedgerVerifier, verifyColumns } = await import(pathToFileURL(`${folder}/verify.js`));
try {
  const ledger = new LedgerVerifier();
  for (const value of valuesOf(chain)) await ledger.add(value);
  const columns = {};
  for (let place = 0; place < files.length; place += 2) {
    const shown = [];
    await verifyColumns(files[place], ledger, valuesOf(files[place + 1]), (period) => shown.push(period));
    columns[files[place]] = shown.length;
  }
  console.log(JSON.stringify({ periods: ledger.periods.length, over: ledger.over, head: ledger.head, columns }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message }));
}
