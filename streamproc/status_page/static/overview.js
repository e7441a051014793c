// The top of the page: the study, how far it is, and alerts.

import { now } from "/static/data.js";
import { byId, h, visuallyHidden } from "/static/elements.js";
import { formatCount, formatDelta, formatDuration, formatEpsilon, formatInteger, formatTime } from "/static/words.js";

const MAX_STEPS = 60; // a longer timeline is one bar

export function showOverview(status) {
  document.title = `${status.study}: ${status.released} of ${status.horizon} periods released`;
  byId("title").textContent = status.study;
  byId("lede").textContent = lede(status);
  byId("alerts").replaceChildren(...alerts(status));
  byId("facts").replaceChildren(
    fact("People", status.n !== null ? formatInteger(status.n) : status.expected !== null ? `about ${formatInteger(status.expected)}` : "not known yet"),
    fact("Released", `${formatInteger(status.released)} of ${formatInteger(status.horizon)}`, "periods"),
    fact("Privacy spent", `ε ${formatEpsilon(status.epsilon_spent)}`, `of ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}${replaceOne(status)}`),
    nextCut(status),
  );
  byId("timeline").replaceChildren(timeline(status));
  updateCountdown(status);
}

function fact(name, value, more) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "figure" }, value), more ? h("small", {}, more) : null));
}

function replaceOne(status) {
  if (status.epsilon_replace_one === undefined) return "";
  return ` (zero-out); under replace-one ε ${formatEpsilon(status.epsilon_spent_replace_one)} of ${formatEpsilon(status.epsilon_replace_one)}`;
}

function lede(status) {
  const kinds = formatCount(status.releases.length, "release");
  const people = status.n !== null ? `${formatCount(status.n, "person", "people")} ` : status.expected !== null ? `About ${formatCount(status.expected, "person", "people")} ` : "People ";
  const summary = `${people}report once in each of ${formatCount(status.horizon, "period")}. Synthetic people are published, in ${kinds}${status.insecure ? "" : ", with every real person’s whole history protected"}.`;
  if (status.state === "over") return `${summary} The study is over: every period is released, and nothing more will be.`;
  if (status.state === "waiting") return `${summary} Nothing is released yet.`;
  return summary;
}

function alerts(status) {
  const found = [];
  if (status.insecure)
    found.push(
      h("div", { class: "alert danger", role: "note", "aria-label": "Insecure" }, h("strong", {}, "Insecure: this study protects nobody. "), "Its noise comes from a seed and can be repeated. Do not use it with real people."),
    );
  if (status.problem)
    found.push(h("div", { class: "alert danger", role: "note", "aria-label": "Verification failed" }, h("strong", {}, "The server’s check of the topics failed. "), `${status.problem}. The data below is from before that.`));
  if (!status.following)
    found.push(h("div", { class: "alert warning", role: "note", "aria-label": "Broker" }, h("strong", {}, "The topics are not being followed. "), "The broker does not answer, or the server has just started and reads them from their start. It recovers without intervention; what is released does not change."));
  if (status.rho_spent > status.rho * (1 + 1e-12))
    found.push(h("div", { class: "alert danger", role: "note", "aria-label": "Over budget" }, h("strong", {}, "More than the budget was spent. "), "A draw was lost and its cost accepted; the ledger below names it."));
  return found;
}

// The time of the countdown: the release if the schedule sets its time, else the cut.
const next = (status) => status?.next_release ?? status?.next_cut ?? null;

function nextCut(status) {
  if (status.state === "over") return fact("Next period closes", "never", "the study is over");
  if (status.next_cut === null) return fact("Next period closes", "when the steward closes it", `period ${status.released + 1}`);
  const label = status.next_release ? "Next period is released" : "Next period closes";
  const element = fact(label, "…", `period ${next(status).period}, ${formatTime(next(status).at)}`);
  element.querySelector(".figure").id = "countdown";
  return element;
}

// Updates the countdown; called once a second.
export function updateCountdown(status) {
  const countdown = byId("countdown");
  if (!countdown || next(status) === null) return;
  const left = (Date.parse(next(status).at) - now()) / 1000;
  countdown.textContent = left > 0 ? `in ${formatDuration(left)}` : "awaited";
}

function timeline(status) {
  const { released, horizon } = status;
  const clamped = new Set(status.releases.filter((release) => release.clamping_narrows_intervals).flatMap((release) => release.clamped_periods));
  if (horizon > MAX_STEPS) {
    const bar = h("div", { class: "track", role: "meter", "aria-label": "Periods released", "aria-valuemin": 0, "aria-valuemax": horizon, "aria-valuenow": released, "aria-valuetext": `${released} of ${horizon}` }, h("span", { class: "fill" }));
    bar.firstChild.style.width = `${(100 * released) / horizon}%`;
    return bar;
  }
  const steps = Array.from({ length: horizon }, (_, index) => {
    const period = index + 1;
    const state = period <= released ? "released" : period === released + 1 ? "open" : "later";
    const description = { released: "released", open: "open: reports may still arrive", later: "to come" }[state];
    const mark = clamped.has(period) ? ", with clamped bins" : "";
    return h("li", { class: `${state}${mark ? " clamped" : ""}`, title: `Period ${period}: ${description}${mark}` }, h("span", { class: "number" }, visuallyHidden("Period "), String(period)), visuallyHidden(`: ${description}${mark}`));
  });
  return h("ol", { class: "timeline", "aria-label": "Periods" }, steps);
}
