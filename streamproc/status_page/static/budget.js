// The budget of each release, what it has spent, and what that means in words.

import { byId, h } from "/static/elements.js";
import { formatChance, formatCost, formatCount, formatDelta, formatEpsilon, formatInteger } from "/static/words.js";

export function showBudget(status) {
  const rows = status.releases.map((release) => meter(release.name, release.rho_spent, release.rho, release.summary, release, status.open));
  const all = meter(status.open ? "One person’s whole participation" : "The whole study", status.rho_spent, status.rho, `ε ${formatEpsilon(status.epsilon_spent)} of ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}`, status, status.open);
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

function meter(name, spent, rho, more, costs, perPerson) {
  const share = Math.min(1, spent / rho);
  const left = Math.max(0, 1 - spent / rho);
  const text = perPerson ? `ρ ${formatCost(spent)} of at most ${formatCost(rho)} per person` : `ρ ${formatCost(spent)} of ${formatCost(rho)} spent, ${Math.floor(100 * left + 1e-9)}% left`;
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

// How many times as likely an outcome becomes at most.
function timesAsLikely(status) {
  const factor = Math.exp(status.epsilon);
  return factor < 100 ? (Math.ceil(100 * factor) / 100).toFixed(2) : factor < 1e6 ? formatInteger(Math.ceil(factor)) : `e^${formatEpsilon(status.epsilon)}`;
}

function openWords(status) {
  const changed =
    status.adjacency === "add-remove"
      ? "one person had not taken part, or one more had"
      : "one person’s whole participation, its beginning and its end included, were replaced by any other";
  return [
    h("p", {}, `If ${changed} (${status.adjacency}), everything published here, however long the study goes on, would look almost the same: no outcome becomes more than ${timesAsLikely(status)} times as likely, except with a probability of ${formatChance(status.delta)}.`),
    h("p", {}, `That is the whole budget, ρ ${formatCost(status.rho)} in zero-concentrated differential privacy, or ε ${formatEpsilon(status.epsilon)} at δ ${formatDelta(status.delta)}. It is a bound for one person, who is present for at most ${formatCount(status.tenure, "period")} and never comes back. So what is spent rises in the first periods and then stays, however many follow.`),
    h("p", {}, "How many people take part is protected too. The numbers of people who are present, enter and leave are estimates."),
  ];
}

function words(status) {
  const title = h("h3", {}, "In plain words");
  if (status.insecure)
    return [title, h("p", {}, "Nobody is protected: the noise comes from a seed, and anyone who has the seed can subtract it. The costs shown are those that real noise would have.")];
  if (status.open) return [title, ...openWords(status)];
  const times = timesAsLikely(status);
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
