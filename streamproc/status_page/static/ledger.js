// The ledger as a table, and the button that verifies it in the reader's browser.

import { RequestFailed, getJson, records, reloadOnFailure } from "/static/data.js";
import { byId, h, replaceContents, visuallyHidden } from "/static/elements.js";
import { LedgerVerifier, verifyColumns } from "/static/verify.js";
import { formatBytes, formatCost, formatCount, formatInteger, shortDigest } from "/static/words.js";

const MAX_AUTO_BYTES = 50_000_000; // more bytes of columns are verified only if the reader ticks the box
const PAGE_PERIODS = 24;

let status = null;
let shown = [];
let requested = PAGE_PERIODS; // number of periods that the reader has requested
let total = 0;
let verified = null; // the LedgerVerifier that has verified the ledger

export async function showLedger(newest) {
  status = newest;
  if (!byId("verify-button")) byId("verify").replaceChildren(...verifyControls());
  byId("server-says").textContent = describeServerCheck();
  const bytes = status.releases.reduce((sum, release) => sum + (release.column_bytes ?? 0) * release.columns, 0);
  byId("columns-size").textContent = formatBytes(bytes);
  if (!byId("with-columns").dataset.touched) byId("with-columns").checked = bytes <= MAX_AUTO_BYTES;
  byId("verify-button").disabled = status.head === null;
  const found = await getJson("ledger", [["limit", Math.min(requested, 500)]]);
  [shown, total] = [found.periods, found.total];
  replaceContents(byId("chain"), chainTable());
}

function describeServerCheck() {
  if (status.problem) return `The server’s own check failed: ${status.problem}.`;
  if (status.head === null) return "There is no ledger yet.";
  return `The server checked the same chain, recomputed the spending and the counts, and found no difference; its head is ${shortDigest(status.head)}…`;
}

function verifyControls() {
  const box = h("input", { type: "checkbox", id: "with-columns", checked: true, onchange: (event) => (event.target.dataset.touched = "yes") });
  return [
    h(
      "div",
      { class: "verify" },
      h("button", { type: "button", id: "verify-button", class: "primary", onclick: verify }, "Verify in this browser"),
      h("label", {}, box, h("span", {}, "and every column, ", h("span", { id: "columns-size" }))),
      h("p", { id: "verdict", class: "verdict", role: "status" }),
      h("p", { id: "server-says", class: "quiet-text" }),
    ),
  ];
}

async function verify() {
  const [button, verdict] = [byId("verify-button"), byId("verdict")];
  button.setAttribute("aria-disabled", "true");
  verdict.dataset.state = "working";
  verdict.textContent = "Reading the ledger…";
  try {
    const summary = await verifyTopics((text) => (verdict.textContent = text));
    verdict.dataset.state = "good";
    verdict.replaceChildren(h("strong", {}, "Verified. "), summary);
  } catch (error) {
    verified = null;
    const unknown = error instanceof RequestFailed;
    verdict.dataset.state = unknown ? "unknown" : "bad";
    verdict.replaceChildren(h("strong", {}, unknown ? "Not verified. " : "Verification failed. "), `${error.message}.`);
  }
  button.removeAttribute("aria-disabled");
  replaceContents(byId("chain"), chainTable());
}

async function verifyTopics(showProgress) {
  const ledger = new LedgerVerifier();
  for await (const value of records("ledger")) {
    await ledger.add(value);
    if (ledger.records % 64 === 0) showProgress(`${formatInteger(ledger.records)} records read…`);
  }
  if (ledger.study !== status.study) throw new Error(`the ledger belongs to another study, ${ledger.study}`);
  for (const row of shown) compareRow(row, ledger);
  let columns = 0;
  if (byId("with-columns").checked)
    for (const [name, digests] of Object.entries(ledger.columns))
      columns += await verifyColumns(name, ledger, records(`synthetic/${name}`), (period) => showProgress(`${name}: column ${period} of ${digests.length}…`));
  verified = ledger;
  const what = [formatCount(ledger.records, "record"), formatCount(ledger.periods.length, "period"), ...(byId("with-columns").checked ? [formatCount(columns, "column")] : [])];
  return `${what.join(", ")}: every digest recomputed here from the bytes of the topics. Costs and counts are recomputed by the server, not here. The head is ${shortDigest(ledger.head)}…; everyone who reads this ledger must find the same head.`;
}

// Throws if the table shows anything that is not in the records.
function compareRow(row, ledger) {
  const found = ledger.periods[row.period - 1];
  if (!found || found.digest !== row.digest || found.previous !== row.previous || found.rhoSpent !== row.rho_spent)
    throw new Error(`period ${row.period}: the table on this page is not what the ledger says`);
}

function chainTable() {
  if (total === 0) return h("p", { class: "quiet-text" }, "The ledger has no period yet.");
  const more = shown.at(-1).period > 1 ? h("button", { type: "button", class: "quiet", onclick: () => reloadOnFailure(loadEarlier()) }, `Earlier periods (${formatInteger(shown.at(-1).period - 1)} more)`) : null;
  const head = ["Period", "Digest", "Previous", "Cost ρ", "Total ρ", ...(hasReplaceOne() ? ["Total ρ, replace-one"] : []), "Columns"].map((name) => h("th", { scope: "col" }, name));
  return h(
    "div",
    {},
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The ledger’s periods, newest first" }, h("table", { class: "chain" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, shown.map(tableRow)))),
    more,
  );
}

// Whether the study is zero-out, so that every period also has the cost of the same noise under replace-one.
function hasReplaceOne() {
  return shown.length > 0 && shown.every((row) => row.rho_spent_replace_one !== undefined);
}

function tableRow(row) {
  const good = verified?.periods[row.period - 1]?.digest === row.digest;
  const entries = Object.entries(row.releases);
  const spent = entries.reduce((sum, [, entry]) => sum + entry.rho, 0);
  const columns = entries.filter(([, entry]) => Object.keys(entry.columns).length).map(([name, entry]) => (Object.keys(entry.columns).length > 1 ? `${name} ×${Object.keys(entry.columns).length}` : name));
  return h(
    "tr",
    { class: good ? "verified" : null },
    h("th", { scope: "row" }, h("span", { class: "link", "aria-hidden": "true" }), formatInteger(row.period), good ? visuallyHidden(", verified") : null),
    h("td", {}, h("code", { title: row.digest }, shortDigest(row.digest))),
    h("td", {}, h("code", { title: row.previous }, shortDigest(row.previous))),
    h("td", { class: "number" }, formatCost(spent, 4, true)),
    h("td", { class: "number" }, formatCost(row.rho_spent, 4, true)),
    hasReplaceOne() ? h("td", { class: "number" }, formatCost(row.rho_spent_replace_one, 4, true)) : null,
    h("td", {}, columns.join(", ") || "no column yet", row.abandoned.length ? h("strong", { class: "clamped-text" }, ` and ${formatCount(row.abandoned.length, "lost draw")}, whose cost was accepted`) : null),
  );
}

async function loadEarlier() {
  const oldest = shown.at(-1).period;
  requested = shown.length + PAGE_PERIODS;
  const found = await getJson("ledger", [["limit", PAGE_PERIODS], ["before", oldest]]);
  if (shown.at(-1).period !== oldest) return; // a newer table was loaded meanwhile, with all periods requested
  shown = [...shown, ...found.periods];
  replaceContents(byId("chain"), chainTable());
}
