// What each release may spend and has spent, and what that means in words.

import { at, h } from "/static/elements.js";
import { chance, cost, epsilon, plural, tiny, whole } from "/static/words.js";

export function showBudget(status) {
  const rows = status.releases.map((release) => meter(release.name, release.rho_spent, release.rho, kind(release), release));
  const all = meter("The whole study", status.rho_spent, status.rho, `ε ${epsilon(status.epsilon_spent)} of ${epsilon(status.epsilon)} at δ ${tiny(status.delta)}`, status);
  all.classList.add("total");
  at("budget-meters").replaceChildren(...rows, all);
  at("budget-words").replaceChildren(...words(status));
}

function kind(release) {
  return release.kind === "window" ? `windows of ${plural(release.k, "period")}` : "running counts";
}

// Of a zero-out study: what the same noise costs under replace-one. Other studies have no such fields.
function replaceOne(costs) {
  if (costs.rho_replace_one === undefined) return null;
  const epsilons = costs.epsilon_replace_one === undefined ? "" : `, ε ${epsilon(costs.epsilon_spent_replace_one)} of ${epsilon(costs.epsilon_replace_one)}`;
  return h("p", { class: "meter-said" }, `The same noise under replace-one: ρ ${cost(costs.rho_spent_replace_one)} of ${cost(costs.rho_replace_one)}${epsilons}`);
}

function meter(name, spent, rho, more, costs) {
  const share = Math.min(1, spent / rho);
  const left = Math.max(0, 1 - spent / rho);
  const said = `ρ ${cost(spent)} of ${cost(rho)} spent, ${Math.floor(100 * left + 1e-9)}% left`;
  const fill = h("span", { class: spent > rho * (1 + 1e-12) ? "fill over" : "fill" });
  fill.style.width = `${100 * share}%`;
  return h(
    "div",
    { class: "meter" },
    h("p", { class: "meter-name" }, h("strong", {}, name), h("span", {}, more)),
    h("div", { class: "track", role: "meter", "aria-label": `Budget of ${name}`, "aria-valuemin": 0, "aria-valuemax": rho, "aria-valuenow": Math.min(spent, rho), "aria-valuetext": said }, fill),
    h("p", { class: "meter-said" }, said),
    replaceOne(costs),
  );
}

function leftOut(status) {
  return status.releases.some((release) => release.kind === "window")
    ? "Everybody is in exactly one bin in every period, so there is no input in which a history is left out."
    : "A history is left out of every count only where it is replaced by one without any event.";
}

function words(status) {
  const title = h("h3", {}, "In plain words");
  if (status.insecure)
    return [title, h("p", {}, "Nobody is protected: the noise comes from a seed, and whoever has the seed can take it off. The costs are what they would be with real noise.")];
  const factor = Math.exp(status.epsilon);
  const times = factor < 100 ? (Math.ceil(100 * factor) / 100).toFixed(2) : factor < 1e6 ? whole(Math.ceil(factor)) : `e^${epsilon(status.epsilon)}`;
  const changed =
    status.adjacency === "replace-one"
      ? "one person’s whole history were replaced by any other"
      : "one person’s whole history were left out of every count";
  const who = status.roster
    ? "Who takes part was fixed by a roster before the first period."
    : "Who took part in period 1 is not protected, since no roster was fixed before.";
  return [
    title,
    h("p", {}, `If ${changed} (${status.adjacency}), everything published here, over all ${plural(status.horizon, "period")}, would look almost the same: nothing becomes more than ${times} times as likely, but for a chance of ${chance(status.delta)}.`),
    h("p", {}, `That is the whole budget, ρ ${cost(status.rho)} in zero-concentrated differential privacy, or ε ${epsilon(status.epsilon)} at δ ${tiny(status.delta)}. It was fixed before the first report. ${who}`),
    status.rho_replace_one === undefined
      ? null
      : h("p", {}, `${leftOut(status)} If one person’s whole history were replaced by any other (replace-one), the same noise costs ρ ${cost(status.rho_replace_one)}, or ε ${epsilon(status.epsilon_replace_one)} at δ ${tiny(status.delta)}.`),
  ].filter((part) => part !== null);
}
