// Loads the status, shows all parts of the page, and does so again whenever the server announces a change.

import { showAnswers } from "/static/answers.js";
import { showBudget } from "/static/budget.js";
import { RequestFailed, addJitter, getJson } from "/static/data.js";
import { byId } from "/static/elements.js";
import { showHeadroom } from "/static/headroom.js";
import { showLedger } from "/static/ledger.js";
import { EventStream } from "/static/live.js";
import { showOverview, updateCountdown } from "/static/overview.js";
import { showSubscribe } from "/static/subscribe.js";

const MIN_PAUSE_MS = 1000; // until a failed load is repeated; doubles with every failure
const MAX_PAUSE_MS = 10_000;
const SPREAD_MS = 1000; // all pages get an event at once, so each waits a random part of this before it loads

let shown = null; // the newest status
let shownText = null; // the same as JSON, once all parts of the page show it
let loading = false;
let loadAgain = false;
let pause = MIN_PAUSE_MS;
let timer = null;
let connection = "connecting";

function refreshIn(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(refresh, milliseconds);
}

// Loads once at a time. If a change is announced meanwhile, the status is loaded again afterwards.
async function refresh() {
  clearTimeout(timer);
  timer = null;
  loadAgain = loading;
  if (loading) return;
  loading = true;
  try {
    const status = await getJson("status");
    if (JSON.stringify(status) !== shownText) await show(status);
    pause = MIN_PAUSE_MS;
    showConnection(true);
  } catch (error) {
    showConnection(false);
    if (!(error instanceof RequestFailed)) console.warn(`The page could not be updated: ${error.message}`);
    else if (!document.hidden) refreshIn(addJitter(Math.max(pause, error.retryAfter))); // a hidden page loads when it becomes visible
    pause = Math.min(2 * pause, MAX_PAUSE_MS);
  }
  loading = false;
  if (loadAgain && timer === null) refreshIn(0);
}

async function show(status) {
  // A server that has just started has not read its topics yet, so the page keeps what it shows.
  if (shown !== null && !status.following && status.released < shown.released) return;
  if (shown !== null && status.released > shown.released) byId("announce").textContent = `Period ${status.released} is released.`;
  shown = status;
  showOverview(status);
  showBudget(status);
  showHeadroom(status);
  showSubscribe(status);
  await Promise.all([showAnswers(status), showLedger(status)]);
  shownText = JSON.stringify(status);
  document.documentElement.dataset.shown = String(status.released);
  if (history.state !== null) history.replaceState(null, ""); // clears the count of attempts to load the page
}

// Shows whether the page is connected and up to date.
function showConnection(fresh) {
  if (connection === "connecting" && fresh) return;
  byId("live").dataset.state = fresh ? connection : "away";
  byId("live-text").textContent = connection === "away" ? "Reconnecting" : fresh ? "Live" : "Not up to date";
}

function onChange() {
  if (timer === null) refreshIn(Math.random() * SPREAD_MS);
}

function onConnection(state) {
  connection = state;
  showConnection(state === "live");
  if (state === "live") onChange();
}

// A request of the reader failed, so what is shown is not what they chose.
function onStale() {
  shownText = null;
  showConnection(false);
  if (timer === null) refreshIn(addJitter(MIN_PAUSE_MS));
}

refresh();
setInterval(() => updateCountdown(shown), 1000);
const events = new EventStream(onChange, onConnection);
addEventListener("stale", onStale);
addEventListener("pagehide", () => events.close());
