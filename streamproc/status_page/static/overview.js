// What is seen first: which study, how far it is, and whether anything is wrong with it.

import { now } from "/static/data.js";
import { at, h, unseen } from "/static/elements.js";
import { epsilon, instant, plural, span, tiny, whole } from "/static/words.js";

const MOST_STEPS = 60; // a longer timeline is one bar

export function showOverview(status) {
  document.title = `${status.study}: ${status.released} of ${status.horizon} periods released`;
  at("title").textContent = status.study;
  at("lede").textContent = lede(status);
  at("alerts").replaceChildren(...alerts(status));
  at("facts").replaceChildren(
    fact("People", status.n !== null ? whole(status.n) : status.expected !== null ? `about ${whole(status.expected)}` : "not known yet"),
    fact("Released", `${whole(status.released)} of ${whole(status.horizon)}`, "periods"),
    fact("Privacy spent", `ε ${epsilon(status.epsilon_spent)}`, `of ${epsilon(status.epsilon)} at δ ${tiny(status.delta)}${replaceOne(status)}`),
    nextCut(status),
  );
  at("timeline").replaceChildren(timeline(status));
  tick(status);
}

function fact(name, value, more) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "figure" }, value), more ? h("small", {}, more) : null));
}

function replaceOne(status) {
  if (status.epsilon_replace_one === undefined) return "";
  return ` (zero-out); under replace-one ε ${epsilon(status.epsilon_spent_replace_one)} of ${epsilon(status.epsilon_replace_one)}`;
}

function lede(status) {
  const kinds = plural(status.releases.length, "release");
  const whom = status.n !== null ? `${plural(status.n, "person", "people")} ` : status.expected !== null ? `About ${plural(status.expected, "person", "people")} ` : "People ";
  const what = `${whom}report once in each of ${plural(status.horizon, "period")}. What is published are synthetic people, in ${kinds}${status.insecure ? "" : ", with every real person’s whole history protected"}.`;
  if (status.state === "over") return `${what} The study is over: every period is released, and nothing more will be.`;
  if (status.state === "waiting") return `${what} Nothing is released yet.`;
  return what;
}

function alerts(status) {
  const found = [];
  if (status.insecure)
    found.push(
      h("div", { class: "alert danger", role: "note", "aria-label": "Insecure" }, h("strong", {}, "Insecure: this study protects nobody. "), "Its noise comes from a seed and can be repeated. Do not use it with real people."),
    );
  if (status.problem)
    found.push(h("div", { class: "alert danger", role: "note", "aria-label": "Verification failed" }, h("strong", {}, "The server’s check of the topics failed. "), `${status.problem}. What is shown below is from before that.`));
  if (!status.following)
    found.push(h("div", { class: "alert warning", role: "note", "aria-label": "Broker" }, h("strong", {}, "The topics are not followed now. "), "The broker does not answer, or the server has just started and reads them from their start. It goes on by itself; what is released stays as it is."));
  if (status.rho_spent > status.rho * (1 + 1e-12))
    found.push(h("div", { class: "alert danger", role: "note", "aria-label": "Over budget" }, h("strong", {}, "More than the budget was spent. "), "A draw was lost and its cost accepted; the ledger below names it."));
  return found;
}

// What the countdown counts to: the release, where the schedule sets its time, else the cut.
const next = (status) => status?.next_release ?? status?.next_cut ?? null;

function nextCut(status) {
  if (status.state === "over") return fact("Next period closes", "never", "the study is over");
  if (status.next_cut === null) return fact("Next period closes", "when the steward says", `period ${status.released + 1}`);
  const label = status.next_release ? "Next period is released" : "Next period closes";
  const made = fact(label, "…", `period ${next(status).period}, ${instant(next(status).at)}`);
  made.querySelector(".figure").id = "countdown";
  return made;
}

// Once a second: what the countdown says now.
export function tick(status) {
  const shown = at("countdown");
  if (!shown || next(status) === null) return;
  const left = (Date.parse(next(status).at) - now()) / 1000;
  shown.textContent = left > 0 ? `in ${span(left)}` : "awaited";
}

function timeline(status) {
  const { released, horizon } = status;
  const clamped = new Set(status.releases.filter((release) => release.kind === "window").flatMap((release) => release.clamped_periods));
  if (horizon > MOST_STEPS) {
    const bar = h("div", { class: "track", role: "meter", "aria-label": "Periods released", "aria-valuemin": 0, "aria-valuemax": horizon, "aria-valuenow": released, "aria-valuetext": `${released} of ${horizon}` }, h("span", { class: "fill" }));
    bar.firstChild.style.width = `${(100 * released) / horizon}%`;
    return bar;
  }
  const steps = Array.from({ length: horizon }, (_, place) => {
    const period = place + 1;
    const state = period <= released ? "released" : period === released + 1 ? "open" : "later";
    const words = { released: "released", open: "open: its reports may still be coming in", later: "to come" }[state];
    const mark = clamped.has(period) ? ", with clamped bins" : "";
    return h("li", { class: `${state}${mark ? " clamped" : ""}`, title: `Period ${period}: ${words}${mark}` }, h("span", { class: "number" }, unseen("Period "), String(period)), unseen(`: ${words}${mark}`));
  });
  return h("ol", { class: "timeline", "aria-label": "Periods" }, steps);
}
