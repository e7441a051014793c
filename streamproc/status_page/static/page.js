// Brings the parts together: asks for the status, shows it, and again whenever there is news.

import { showAnswers } from "/static/answers.js";
import { showBudget } from "/static/budget.js";
import { Unanswered, ask, scattered } from "/static/data.js";
import { at } from "/static/elements.js";
import { showHeadroom } from "/static/headroom.js";
import { showLedger } from "/static/ledger.js";
import { Live } from "/static/live.js";
import { showOverview, tick } from "/static/overview.js";
import { showSubscribe } from "/static/subscribe.js";

const [SHORTEST, LONGEST] = [1000, 10_000]; // milliseconds until what could not be shown is tried again
const SPREAD = 1000; // milliseconds over which pages ask for news that all are told of at once

let shown = null; // the newest status
let whole = null; // the same as text, once everything that goes with it is shown
let asking = false;
let again = false;
let pause = SHORTEST;
let later = null;
let connected = "connecting";

function refreshIn(milliseconds) {
  clearTimeout(later);
  later = setTimeout(refresh, milliseconds);
}

// One at a time: news that comes meanwhile is asked for afterwards.
async function refresh() {
  clearTimeout(later);
  later = null;
  again = asking;
  if (asking) return;
  asking = true;
  try {
    const status = await ask("status");
    if (JSON.stringify(status) !== whole) await show(status);
    pause = SHORTEST;
    indicate(true);
  } catch (error) {
    indicate(false);
    if (!(error instanceof Unanswered)) console.warn(`The page could not be brought up to date: ${error.message}`);
    else if (!document.hidden) refreshIn(scattered(Math.max(pause, error.after))); // whoever comes back to it asks anew
    pause = Math.min(2 * pause, LONGEST);
  }
  asking = false;
  if (again && later === null) refreshIn(0);
}

async function show(status) {
  // A server that has just started has not read its topics yet: what is shown stays.
  if (shown !== null && !status.following && status.released < shown.released) return;
  if (shown !== null && status.released > shown.released) at("announce").textContent = `Period ${status.released} is released.`;
  shown = status;
  showOverview(status);
  showBudget(status);
  showHeadroom(status);
  showSubscribe(status);
  await Promise.all([showAnswers(status), showLedger(status)]);
  whole = JSON.stringify(status);
  document.documentElement.dataset.shown = String(status.released);
  if (history.state !== null) history.replaceState(null, ""); // of attempts to load the page
}

// Whether what is shown is what there is.
function indicate(fresh) {
  if (connected === "connecting" && fresh) return;
  at("live").dataset.state = fresh ? connected : "away";
  at("live-text").textContent = connected === "away" ? "Reconnecting" : fresh ? "Live" : "Not up to date";
}

function news() {
  if (later === null) refreshIn(Math.random() * SPREAD);
}

function live(state) {
  connected = state;
  indicate(state === "live");
  if (state === "live") news();
}

// What a reader asked for and did not get.
function stale() {
  whole = null;
  indicate(false);
  if (later === null) refreshIn(scattered(SHORTEST));
}

refresh();
setInterval(() => tick(shown), 1000);
const listening = new Live(news, live);
addEventListener("stale", stale);
addEventListener("pagehide", () => listening.close());
