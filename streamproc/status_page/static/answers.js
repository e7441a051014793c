// Questions and their answers over time: one large, the bins in small beside it.

import { lineChart, smallChart } from "/static/chart.js";
import { ask, orLater } from "/static/data.js";
import { at, drawn, h, renew } from "/static/elements.js";
import { interval, percent, plural, whole } from "/static/words.js";

const MOST_SMALL = 12;

let status = null;
let release = null; // the name of the one that is shown
let wanted = null; // the one the reader chose, if any
let query = null;
let period = null; // null follows the newest
let series = null; // null while it is asked for
let answered = null; // the release that the series is of
let redraw = () => {};

export async function showAnswers(newest) {
  status = newest;
  const ready = status.releases.filter((candidate) => candidate.questions.length);
  at("answers-intro").textContent = ready.length
    ? "Shares of the real people, estimated from the synthetic ones: padding taken off, with 95% intervals that follow from the known noise alone. Noise may put a small share below zero."
    : "The first answers come with the first columns.";
  if (!ready.length) {
    at("answers-body").replaceChildren(h("p", { class: "empty" }, waiting()));
    return;
  }
  if (!at("question")) at("answers-body").replaceChildren(...frame());
  chooseRelease(ready.find((candidate) => candidate.name === wanted) ?? ready[0], ready);
  await Promise.all([showSeries(), showBins()]);
}

function waiting() {
  const first = Math.min(...status.releases.map((candidate) => candidate.k ?? 1));
  return `Nothing is published yet. The first columns come out when period ${first} is closed and released.`;
}

function frame() {
  const box = h("div", { class: "drawing large", id: "chart" });
  redraw = drawn(box, draw);
  const point = (event) => {
    const drawing = box.firstChild;
    if (series?.periods.length) choosePeriod(drawing.nearest(event.clientX - drawing.getBoundingClientRect().left));
  };
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  return [
    h("div", { class: "controls" }, h("fieldset", { class: "choice", id: "release-choice" }), h("label", { class: "field" }, h("span", {}, "Question"), h("select", { id: "question", onchange: (event) => chooseQuery(event.target.value) }))),
    h(
      "figure",
      { class: "card answer" },
      h("figcaption", {}, h("p", { class: "asked", id: "asked" }), h("p", { class: "reading" }, h("span", { class: "figure", id: "reading-value" }), h("span", { id: "reading-rest" }))),
      box,
      h("label", { class: "slider" }, h("span", {}, "Period"), h("input", { type: "range", id: "period", step: 1, oninput: (event) => choosePeriod(Number(event.target.value)) })),
      h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Answers by period", id: "answers-table" })),
    ),
    h("div", { class: "bins-head" }, h("h3", { id: "bins-title" }), h("label", { class: "field", id: "bin-field" }, h("span", {}, "Find a bin"), h("input", { type: "search", id: "bin-search", autocomplete: "off", spellcheck: "false", oninput: search }))),
    h("p", { class: "quiet-text", id: "bins-said", role: "status" }),
    h("div", { class: "bins", id: "bins" }),
  ];
}

function current() {
  return status.releases.find((candidate) => candidate.name === release);
}

function chooseRelease(chosen, ready) {
  const changed = release !== chosen.name;
  release = chosen.name;
  const radios = ready.map((candidate) =>
    h("label", {}, h("input", { type: "radio", name: "release", value: candidate.name, checked: candidate.name === release, onchange: () => other(candidate, ready) }), h("span", {}, candidate.name)),
  );
  const key = ready.map((candidate) => candidate.name).join();
  if (at("release-choice").dataset.key !== key) {
    renew(at("release-choice"), h("legend", {}, "Release"), ...radios);
    at("release-choice").dataset.key = key;
  }
  if (changed || !query) query = chosen.questions[0].query;
  if (changed) forget();
  questions(chosen);
}

function other(chosen, ready) {
  wanted = chosen.name;
  chooseRelease(chosen, ready);
  at("bin-search").value = "";
  orLater(Promise.all([showSeries(), showBins()]));
}

// An answer to another question must not stand below this one.
function forget() {
  [series, period] = [null, null];
  at("asked").textContent = "Asking…";
  for (const id of ["reading-value", "reading-rest"]) at(id).textContent = "";
  at("answers-table").replaceChildren();
  at("period").disabled = true;
  redraw();
}

function questions(chosen) {
  const select = at("question");
  const listed = chosen.questions.map((one) => h("option", { value: one.query }, one.label));
  if (!chosen.questions.some((one) => one.query === query)) listed.push(h("option", { value: query }, `bin ${query.replace(/^bin:/, "")}`));
  select.replaceChildren(...listed);
  select.value = query;
}

function chooseQuery(next) {
  query = next;
  forget();
  questions(current());
  orLater(showSeries());
  for (const button of at("bins").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.query === query));
}

async function showSeries() {
  const [whose, what] = [release, query];
  const found = await ask("series", [["release", release], ["query", query]]);
  if (whose !== release || what !== query) return; // another question was asked meanwhile
  [series, answered] = [found.series[0], current()];
  const slider = at("period");
  slider.disabled = false;
  if (series.periods.length) [slider.min, slider.max] = [series.periods[0], series.periods.at(-1)];
  at("asked").textContent = `Share of people with ${series.label}`;
  table();
  choosePeriod(period);
}

function choosePeriod(next) {
  if (series === null) return;
  const newest = series.periods.at(-1);
  period = next === newest ? null : next;
  const nearest = series.periods.reduce((best, one) => (Math.abs(one - (period ?? newest)) < Math.abs(best - (period ?? newest)) ? one : best), newest);
  const place = series.periods.indexOf(nearest);
  if (place < 0) {
    at("reading-value").textContent = "–";
    at("reading-rest").textContent = "no period yet";
    return;
  }
  const [value, low, high] = [series.value[place], series.low[place], series.high[place]];
  const half = (high - low) / 2;
  at("reading-value").textContent = percent(value, half);
  at("reading-rest").textContent = `in period ${whole(nearest)}, 95% interval ${interval(low, high)}${doubt(nearest)}`;
  const slider = at("period");
  slider.value = nearest;
  slider.setAttribute("aria-valuetext", `Period ${nearest}: ${percent(value, half)}, 95% interval ${interval(low, high)}${doubt(nearest)}`);
  redraw();
}

// Periods in which intervals are too narrow; those of a cumulative release account for what was clamped.
function doubtful(chosen) {
  return chosen.kind === "window" ? chosen.clamped_periods : [];
}

function doubt(one) {
  return doubtful(answered).includes(one) ? ", too narrow: bins were clamped" : "";
}

function draw(width) {
  if (series === null) return h("p", { class: "empty" }, "Asking…");
  if (!series.periods.length) return h("p", { class: "empty" }, "This can be asked from a later period on.");
  const drawing = lineChart(series, status.horizon, width, period ?? series.periods.at(-1), doubtful(answered));
  // The slider's thumb, 16 pixels wide, stands below the point it stands for.
  const [left, right] = drawing.span;
  at("period").style.marginLeft = `${left - 8}px`;
  at("period").style.width = `${right - left + 16}px`;
  return drawing;
}

function table() {
  const marked = doubtful(answered);
  const rows = series.periods.map((one, place) => {
    const half = (series.high[place] - series.low[place]) / 2;
    const cells = [series.value[place], series.low[place], series.high[place]].map((share) => h("td", { class: "number" }, percent(share, half)));
    return h("tr", {}, h("th", { scope: "row" }, whole(one)), cells, marked.length ? h("td", {}, marked.includes(one) ? "too narrow" : "") : null);
  });
  const head = ["Period", "Share", "Low", "High", ...(marked.length ? ["Interval"] : [])].map((name) => h("th", { scope: "col" }, name));
  at("answers-table").replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

let waitingToSearch = 0;

function search() {
  clearTimeout(waitingToSearch);
  waitingToSearch = setTimeout(() => orLater(showBins()), 200);
}

async function showBins() {
  const [chosen, text] = [current(), at("bin-search").value.trim()];
  const found = await ask("bins", [["release", chosen.name], ["limit", MOST_SMALL], ["search", text]]);
  const names = found.bins.map((bin) => bin.query);
  const all = names.length ? (await ask("series", [["release", chosen.name], ...names.map((name) => ["query", name])])).series : [];
  if (chosen.name !== release || text !== at("bin-search").value.trim()) return;
  at("bins-title").textContent = chosen.kind === "window" ? `Every bin: ${plural(chosen.k, "period")}, oldest first` : "At least so many periods";
  at("bins-said").textContent = `${said(found, text)}${doubtful(chosen).includes(chosen.columns) ? " Bins were clamped in the newest period: its intervals are too narrow." : ""}`;
  at("bin-field").hidden = found.total <= MOST_SMALL;
  renew(at("bins"), ...found.bins.map((bin, place) => small(bin, all[place])));
}

function said(found, text) {
  const of = text ? `${plural(found.matched, "bin")} with “${text}”` : plural(found.total, "bin");
  const listed = found.bins.length < found.matched ? `The ${found.bins.length} largest of ${of}` : found.matched ? `All ${of}` : `No bin has “${text}” in its label`;
  return `${listed}. Each is drawn on a scale of its own; the band is the 95% interval.`;
}

function breakable(label) {
  return label.split(/(?<=\|)/).flatMap((part) => [part, h("wbr")]);
}

function small(bin, one) {
  const half = (bin.high - bin.low) / 2;
  const box = h("span", { class: "drawing" });
  const made = h(
    "button",
    { type: "button", class: "bin", "data-query": bin.query, "aria-pressed": String(bin.query === query), onclick: () => chooseQuery(bin.query) },
    h("span", { class: "bin-label" }, bin.query.startsWith("atleast:") ? `≥ ${bin.label}` : breakable(bin.label)),
    h("span", { class: "bin-value" }, percent(bin.value, half), h("small", {}, ` ± ${percent(half, half)}`)),
    box,
  );
  requestAnimationFrame(drawn(box, (width) => smallChart(one, status.horizon, width)));
  return made;
}
