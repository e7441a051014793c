// The chain as a table, and the button that walks it here, in the reader's browser.

import { Unanswered, ask, orLater, records } from "/static/data.js";
import { at, h, renew, unseen } from "/static/elements.js";
import { LedgerWalk, walkColumns } from "/static/verify.js";
import { cost, plural, short, size, whole } from "/static/words.js";

const MANY_BYTES = 50_000_000; // columns beyond this are read only if asked for
const PAGE = 24;

let status = null;
let shown = [];
let wanted = PAGE; // how many periods the reader wants to see
let total = 0;
let walked = null;

export async function showLedger(newest) {
  status = newest;
  if (!at("verify-button")) at("verify").replaceChildren(...panel());
  at("server-says").textContent = serverSays();
  const bytes = status.releases.reduce((sum, release) => sum + (release.column_bytes ?? 0) * release.columns, 0);
  at("columns-size").textContent = size(bytes);
  if (!at("with-columns").dataset.touched) at("with-columns").checked = bytes <= MANY_BYTES;
  at("verify-button").disabled = status.head === null;
  const found = await ask("ledger", [["limit", Math.min(wanted, 500)]]);
  [shown, total] = [found.periods, found.total];
  renew(at("chain"), chain());
}

function serverSays() {
  if (status.problem) return `The server’s own check failed: ${status.problem}.`;
  if (status.head === null) return "There is no ledger yet.";
  return `The server checked the same chain, recomputed the spending and the counts, and found no difference; its head is ${short(status.head)}…`;
}

function panel() {
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
  const [button, verdict] = [at("verify-button"), at("verdict")];
  button.setAttribute("aria-disabled", "true");
  verdict.dataset.state = "working";
  verdict.textContent = "Reading the ledger…";
  try {
    const said = await walk((text) => (verdict.textContent = text));
    verdict.dataset.state = "good";
    verdict.replaceChildren(h("strong", {}, "Verified. "), said);
  } catch (error) {
    walked = null;
    const unanswered = error instanceof Unanswered;
    verdict.dataset.state = unanswered ? "unknown" : "bad";
    verdict.replaceChildren(h("strong", {}, unanswered ? "Not verified. " : "Verification failed. "), `${error.message}.`);
  }
  button.removeAttribute("aria-disabled");
  renew(at("chain"), chain());
}

async function walk(say) {
  const ledger = new LedgerWalk();
  for await (const value of records("ledger")) {
    await ledger.add(value);
    if (ledger.records % 64 === 0) say(`${whole(ledger.records)} records read…`);
  }
  if (ledger.study !== status.study) throw new Error(`the ledger is of another study, ${ledger.study}`);
  for (const row of shown) compare(row, ledger);
  let columns = 0;
  if (at("with-columns").checked)
    for (const [name, digests] of Object.entries(ledger.columns))
      columns += await walkColumns(name, digests, ledger.rows[name], records(`synthetic/${name}`), (period) => say(`${name}: column ${period} of ${digests.length}…`));
  walked = ledger;
  const what = [plural(ledger.records, "record"), plural(ledger.periods.length, "period"), ...(at("with-columns").checked ? [plural(columns, "column")] : [])];
  return `${what.join(", ")}: every digest recomputed here from the bytes of the topics. The head is ${short(ledger.head)}…; whoever else reads this ledger must find the same.`;
}

// What the table shows must be what the records say.
function compare(row, ledger) {
  const found = ledger.periods[row.period - 1];
  if (!found || found.digest !== row.digest || found.previous !== row.previous || found.rhoSpent !== row.rho_spent)
    throw new Error(`period ${row.period}: the table on this page is not what the ledger says`);
}

function chain() {
  if (total === 0) return h("p", { class: "quiet-text" }, "No period is on record yet.");
  const more = shown.at(-1).period > 1 ? h("button", { type: "button", class: "quiet", onclick: () => orLater(earlier()) }, `Earlier periods (${whole(shown.at(-1).period - 1)} more)`) : null;
  const head = ["Period", "Digest", "Previous", "Cost ρ", "Total ρ", ...(hasReplaceOne() ? ["Total ρ, replace-one"] : []), "Came out"].map((name) => h("th", { scope: "col" }, name));
  return h(
    "div",
    {},
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The ledger’s periods, newest first" }, h("table", { class: "chain" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, shown.map(line)))),
    more,
  );
}

// Whether the study is zero-out, so that every period also has the cost of the same noise under replace-one.
function hasReplaceOne() {
  return shown.length > 0 && shown.every((row) => row.rho_spent_replace_one !== undefined);
}

function line(row) {
  const good = walked?.periods[row.period - 1]?.digest === row.digest;
  const entries = Object.entries(row.releases);
  const spent = entries.reduce((sum, [, entry]) => sum + entry.rho, 0);
  const came = entries.filter(([, entry]) => Object.keys(entry.columns).length).map(([name, entry]) => (Object.keys(entry.columns).length > 1 ? `${name} ×${Object.keys(entry.columns).length}` : name));
  return h(
    "tr",
    { class: good ? "verified" : null },
    h("th", { scope: "row" }, h("span", { class: "link", "aria-hidden": "true" }), whole(row.period), good ? unseen(", verified") : null),
    h("td", {}, h("code", { title: row.digest }, short(row.digest))),
    h("td", {}, h("code", { title: row.previous }, short(row.previous))),
    h("td", { class: "number" }, cost(spent, 4, true)),
    h("td", { class: "number" }, cost(row.rho_spent, 4, true)),
    hasReplaceOne() ? h("td", { class: "number" }, cost(row.rho_spent_replace_one, 4, true)) : null,
    h("td", {}, came.join(", ") || "no column yet", row.abandoned.length ? h("strong", { class: "clamped-text" }, ` and ${plural(row.abandoned.length, "lost draw")}, paid for`) : null),
  );
}

async function earlier() {
  const oldest = shown.at(-1).period;
  wanted = shown.length + PAGE;
  const found = await ask("ledger", [["limit", PAGE], ["before", oldest]]);
  if (shown.at(-1).period !== oldest) return; // a newer table has come meanwhile, with all that is wanted
  shown = [...shown, ...found.periods];
  renew(at("chain"), chain());
}
