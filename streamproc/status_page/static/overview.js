// The top of the page: the study, how far it is, and alerts.

import { now } from "/static/data.js";
import { byId, h, visuallyHidden } from "/static/elements.js";
import { formatCount, formatDelta, formatDuration, formatEpsilon, formatInteger, formatPeople, formatPercent, formatTime } from "/static/words.js";

const MAX_STEPS = 60; // a longer timeline is one bar
const newestSteps = (last) => (last < 1000 ? 24 : 12); // periods in the timeline of a study without a horizon

export function showOverview(status) {
  document.title = `${status.study}: ${progress(status)} periods released`;
  byId("title").textContent = status.study;
  byId("lede").textContent = lede(status);
  byId("alerts").replaceChildren(...alerts(status));
  byId("facts").replaceChildren(
    status.open ? present(status) : fact("People", status.n !== null ? formatInteger(status.n) : status.expected !== null ? `about ${formatInteger(status.expected)}` : "not known yet"),
    fact("Released", progress(status), status.horizon === null && status.state !== "over" ? "periods; the end is not fixed" : "periods"),
    fact(status.open ? "Privacy spent on one person" : "Privacy spent", `ε ${formatEpsilon(status.epsilon_spent)}`, `of ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}${replaceOne(status)}`),
    nextCut(status),
  );
  byId("timeline").replaceChildren(timeline(status));
  updateCountdown(status);
}

function fact(name, value, more) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "figure" }, value), more ? h("small", {}, more) : null));
}

// How many periods are released, of how many if that is known.
const progress = ({ released, horizon }) => (horizon === null ? formatInteger(released) : `${formatInteger(released)} of ${formatInteger(horizon)}`);

// The estimates of the first release that has a column. Every release has its own, since each is measured with noise of its own.
function present(status) {
  const people = status.releases.find((release) => release.people !== null)?.people;
  if (!people) return fact("People present", status.expected !== null ? `about ${formatInteger(status.expected)}` : "not known yet");
  const { value, low, high } = people.present;
  return fact("People present", formatPeople(value), `${formatPeople(Math.max(0, low))} to ${formatPeople(high)}; in the last period ${formatPeople(people.entered.value)} entered, ${formatPeople(people.left.value)} left`);
}

function replaceOne(status) {
  if (status.epsilon_replace_one === undefined) return "";
  return ` (zero-out); under replace-one ε ${formatEpsilon(status.epsilon_spent_replace_one)} of ${formatEpsilon(status.epsilon_replace_one)}`;
}

function lede(status) {
  const kinds = formatCount(status.releases.length, "release");
  const protects = status.insecure ? "" : `, with every real person’s whole ${status.open ? "participation" : "history"} protected`;
  if (status.open) return openLede(status, kinds, protects);
  const people = status.n !== null ? `${formatCount(status.n, "person", "people")} ` : status.expected !== null ? `About ${formatCount(status.expected, "person", "people")} ` : "People ";
  const summary = `${people}report once in each of ${formatCount(status.horizon, "period")}. Synthetic people are published, in ${kinds}${protects}.`;
  return summary + ending(status);
}

function ending(status) {
  if (status.state === "over") return " The study is over: every period is released, and nothing more will be.";
  return status.state === "waiting" ? " Nothing is released yet." : "";
}

function openLede(status, kinds, protects) {
  const who = status.sample === null ? "People" : `A ${formatPercent(status.sample, 0.1)} sample of all people`;
  const absent = status.absent_after === null ? "" : `, and has left after ${formatCount(status.absent_after, "missing report")} in a row`;
  return `${who} may enter in any period. A person is present for at most ${formatCount(status.tenure, "period")} from the first report on${absent}. Synthetic people enter and leave like the real ones, in ${kinds}${protects}.${ending(status)}`;
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
  if (horizon === null) return newestPeriods(status);
  if (horizon > MAX_STEPS) {
    const bar = h("div", { class: "track", role: "meter", "aria-label": "Periods released", "aria-valuemin": 0, "aria-valuemax": horizon, "aria-valuenow": released, "aria-valuetext": `${released} of ${horizon}` }, h("span", { class: "fill" }));
    bar.firstChild.style.width = `${(100 * released) / horizon}%`;
    return bar;
  }
  return steps(status, 1, horizon);
}

// The newest periods of a study that has no last one yet, with a bar for those before them.
function newestPeriods(status) {
  const last = status.state === "over" ? status.released : status.released + 1;
  const first = Math.max(1, last - newestSteps(last) + 1);
  const list = steps(status, first, last);
  if (first > 1) list.prepend(h("li", { class: "earlier released", title: `Periods 1 to ${first - 1}: released` }, h("span", { class: "number" }, visuallyHidden("Periods "), `1 – ${formatInteger(first - 1)}`), visuallyHidden(": released")));
  return list;
}

function steps(status, first, last) {
  const { released } = status;
  const clamped = new Set(status.releases.filter((release) => release.clamping_narrows_intervals).flatMap((release) => release.clamped_periods));
  const items = Array.from({ length: last - first + 1 }, (_, index) => {
    const period = first + index;
    const state = period <= released ? "released" : period === released + 1 ? "open" : "later";
    const description = { released: "released", open: "open: reports may still arrive", later: "to come" }[state];
    const mark = clamped.has(period) ? ", with clamped bins" : "";
    return h("li", { class: `${state}${mark ? " clamped" : ""}`, title: `Period ${period}: ${description}${mark}` }, h("span", { class: "number" }, visuallyHidden("Period "), String(period)), visuallyHidden(`: ${description}${mark}`));
  });
  return h("ol", { class: "timeline", "aria-label": "Periods" }, items);
}
