// Brings the parts together: asks for the status, shows it, and again whenever there is news.

import { showAnswers } from "/static/answers.js";
import { showBudget } from "/static/budget.js";
import { Unanswered, ask } from "/static/data.js";
import { at } from "/static/elements.js";
import { showHeadroom } from "/static/headroom.js";
import { showLedger } from "/static/ledger.js";
import { Live } from "/static/live.js";
import { showOverview, tick } from "/static/overview.js";
import { showSubscribe } from "/static/subscribe.js";

const [SHORTEST, LONGEST] = [1000, 10_000]; // milliseconds until what could not be shown is tried again

let shown = null;
let asking = false;
let again = false;
let pause = SHORTEST;
let later = 0;

// One at a time: news that comes meanwhile is asked for afterwards.
async function refresh() {
  clearTimeout(later);
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    do {
      again = false;
      await show(await ask("status"));
    } while (again);
    pause = SHORTEST;
  } catch (error) {
    if (!(error instanceof Unanswered)) console.warn(`The page could not be brought up to date: ${error.message}`);
    later = setTimeout(refresh, pause);
    pause = Math.min(2 * pause, LONGEST);
  } finally {
    asking = false;
  }
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
  document.documentElement.dataset.shown = String(status.released);
}

function live(state) {
  at("live").dataset.state = state;
  at("live-text").textContent = state === "live" ? "Live" : "Reconnecting";
  if (state === "live") refresh();
}

refresh();
setInterval(() => tick(shown), 1000);
const listening = new Live(refresh, live);
addEventListener("stale", refresh);
addEventListener("pagehide", () => listening.close());
