// The budget of each release, what it has spent, and what that means in words.

import { byId, h } from "/static/elements.js";
import { formatChance, formatCost, formatCount, formatDelta, formatEpsilon, formatInteger } from "/static/words.js";

export function showBudget(status) {
  const rows = status.releases.map((release) => meter(release.name, release.rho_spent, release.rho, release.summary, release));
  const all = meter("The whole study", status.rho_spent, status.rho, `ε ${formatEpsilon(status.epsilon_spent)} of ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}`, status);
  all.classList.add("total");
  byId("budget-meters").replaceChildren(...rows, all);
  byId("budget-words").replaceChildren(...words(status));
}

// The cost of the same noise under replace-one, which only a zero-out study has.
function replaceOne(costs) {
  if (costs.rho_replace_one === undefined) return null;
  const epsilons = costs.epsilon_replace_one === undefined ? "" : `, ε ${formatEpsilon(costs.epsilon_spent_replace_one)} of ${formatEpsilon(costs.epsilon_replace_one)}`;
  return h("p", { class: "meter-text" }, `The same noise under replace-one: ρ ${formatCost(costs.rho_spent_replace_one)} of ${formatCost(costs.rho_replace_one)}${epsilons}`);
}

function meter(name, spent, rho, more, costs) {
  const share = Math.min(1, spent / rho);
  const left = Math.max(0, 1 - spent / rho);
  const text = `ρ ${formatCost(spent)} of ${formatCost(rho)} spent, ${Math.floor(100 * left + 1e-9)}% left`;
  const fill = h("span", { class: spent > rho * (1 + 1e-12) ? "fill over" : "fill" });
  fill.style.width = `${100 * share}%`;
  return h(
    "div",
    { class: "meter" },
    h("p", { class: "meter-name" }, h("strong", {}, name), h("span", {}, more)),
    h("div", { class: "track", role: "meter", "aria-label": `Budget of ${name}`, "aria-valuemin": 0, "aria-valuemax": rho, "aria-valuenow": Math.min(spent, rho), "aria-valuetext": text }, fill),
    h("p", { class: "meter-text" }, text),
    replaceOne(costs),
  );
}

function words(status) {
  const title = h("h3", {}, "In plain words");
  if (status.insecure)
    return [title, h("p", {}, "Nobody is protected: the noise comes from a seed, and anyone who has the seed can subtract it. The costs shown are those that real noise would have.")];
  const factor = Math.exp(status.epsilon);
  const times = factor < 100 ? (Math.ceil(100 * factor) / 100).toFixed(2) : factor < 1e6 ? formatInteger(Math.ceil(factor)) : `e^${formatEpsilon(status.epsilon)}`;
  const changed =
    status.adjacency === "replace-one"
      ? "one person’s whole history were replaced by any other"
      : "one person’s whole history were left out of every count";
  const who = status.roster
    ? "A roster fixed before the first period who takes part."
    : "The fact that a person took part in period 1 is not protected, because there is no roster.";
  return [
    title,
    h("p", {}, `If ${changed} (${status.adjacency}), everything published here, over all ${formatCount(status.horizon, "period")}, would look almost the same: no outcome becomes more than ${times} times as likely, except with a probability of ${formatChance(status.delta)}.`),
    h("p", {}, `That is the whole budget, ρ ${formatCost(status.rho)} in zero-concentrated differential privacy, or ε ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}. It was fixed before the first report. ${who}`),
    status.rho_replace_one === undefined
      ? null
      : h("p", {}, `${status.zero_out} If one person’s whole history were replaced by any other (replace-one), the same noise costs ρ ${formatCost(status.rho_replace_one)}, or ε ${formatEpsilon(status.epsilon_replace_one)} at δ ${formatDelta(status.delta)}.`),
  ].filter((part) => part !== null);
}
