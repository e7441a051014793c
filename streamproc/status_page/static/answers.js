// Questions and their answers over time: a large chart for one question, and small ones for the bins.

import { lineChart, shownPeriods, smallChart } from "/static/chart.js";
import { getJson, reloadOnFailure } from "/static/data.js";
import { byId, drawAtWidth, h, replaceContents } from "/static/elements.js";
import { formatAnswer, formatAnswerInterval, formatCount, formatInteger, formatPercent } from "/static/words.js";

const MAX_BINS = 12;
const VIEWS = [60, 400]; // numbers of periods that may be looked at, of an open study; the server returns at most 400

let status = null;
let release = null; // the name of the release shown
let chosenRelease = null; // the name of the one that the reader chose, if any
let query = null;
let period = null; // null for the newest one
let series = null; // null while it is being loaded
let seriesRelease = null; // the release of the series
let viewSize = VIEWS[0]; // number of periods looked at; Infinity for all of them
let viewEnd = null; // the last of them; null for the newest one
let redraw = () => {};

export async function showAnswers(newest) {
  status = newest;
  const ready = status.releases.filter((candidate) => candidate.questions.length);
  byId("answers-intro").textContent = ready.length
    ? status.open
      ? "Estimated from the synthetic people. A share is among those who have been present for as many periods as the question is about. The 95% intervals follow from the known noise alone. Noise may make the estimate of a small number negative."
      : "Shares of the real people, estimated from the synthetic ones: padding is subtracted, and the 95% intervals follow from the known noise alone. Noise may make the estimate of a small share negative."
    : "The first answers appear with the first columns.";
  if (!ready.length) {
    byId("answers-body").replaceChildren(h("p", { class: "empty" }, describeWait()));
    return;
  }
  if (!byId("question")) byId("answers-body").replaceChildren(...createControls());
  chooseRelease(ready.find((candidate) => candidate.name === chosenRelease) ?? ready[0], ready);
  showView();
  await Promise.all([showSeries(), showBins()]);
}

// The periods that are looked at, of an open study; null for the whole study.
function view() {
  if (!status.open) return null;
  const newest = currentRelease().columns;
  const last = Math.min(viewEnd ?? newest, newest);
  return { first: Math.max(1, last - viewSize + 1), last, newest };
}

// The periods as parameters of a request.
const viewParameters = () => (view() === null ? [] : [["from", view().first], ["to", view().last]]);

function showView() {
  const shown = view();
  const box = byId("view");
  box.hidden = shown === null || shown.newest <= VIEWS[0];
  if (box.hidden) return;
  byId("view-text").textContent = `Periods ${formatInteger(shown.first)} to ${formatInteger(shown.last)} of ${formatInteger(shown.newest)}${viewSize === Infinity && shown.newest > VIEWS.at(-1) ? `, of which ${VIEWS.at(-1)} are shown` : ""}`;
  byId("view-older").disabled = shown.first === 1;
  byId("view-newer").disabled = shown.last === shown.newest;
}

function createView() {
  const sizes = [...VIEWS.map((size) => h("option", { value: size }, `${size} periods`)), h("option", { value: Infinity }, "all periods")];
  return h(
    "div",
    { class: "view", id: "view", hidden: true },
    h("label", { class: "field" }, h("span", {}, "Show"), h("select", { id: "view-size", onchange: (event) => changeView(Number(event.target.value), viewEnd) }, sizes)),
    h("button", { type: "button", class: "quiet", id: "view-older", onclick: () => moveView(-1) }, "Older"),
    h("button", { type: "button", class: "quiet", id: "view-newer", onclick: () => moveView(1) }, "Newer"),
    h("p", { class: "quiet-text", id: "view-text", role: "status" }),
  );
}

function moveView(direction) {
  const { last, newest } = view();
  const end = Math.max(last + direction * viewSize, Math.min(viewSize, newest));
  changeView(viewSize, end >= newest ? null : end);
}

function changeView(size, end) {
  [viewSize, viewEnd] = [size, size === Infinity ? null : end];
  clearAnswer();
  showView();
  reloadOnFailure(Promise.all([showSeries(), showBins()]));
}

function describeWait() {
  const first = Math.min(...status.releases.map((candidate) => candidate.first_column));
  return `Nothing is published yet. The first columns appear when period ${first} is closed and released.`;
}

function createControls() {
  const box = h("div", { class: "drawing large", id: "chart" });
  redraw = drawAtWidth(box, drawChart);
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
      createView(),
      box,
      h("label", { class: "slider" }, h("span", {}, "Period"), h("input", { type: "range", id: "period", step: 1, oninput: (event) => choosePeriod(Number(event.target.value)) })),
      h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Answers by period", id: "answers-table" })),
    ),
    h("div", { class: "bins-head" }, h("h3", { id: "bins-title" }), h("label", { class: "field", id: "bin-field" }, h("span", {}, "Find a bin"), h("input", { type: "search", id: "bin-search", autocomplete: "off", spellcheck: "false", oninput: search }))),
    h("p", { class: "quiet-text", id: "bins-summary", role: "status" }),
    h("div", { class: "bins", id: "bins" }),
  ];
}

function currentRelease() {
  return status.releases.find((candidate) => candidate.name === release);
}

function chooseRelease(chosen, ready) {
  const changed = release !== chosen.name;
  release = chosen.name;
  const radios = ready.map((candidate) =>
    h("label", {}, h("input", { type: "radio", name: "release", value: candidate.name, checked: candidate.name === release, onchange: () => switchRelease(candidate, ready) }), h("span", {}, candidate.name)),
  );
  const key = ready.map((candidate) => candidate.name).join();
  if (byId("release-choice").dataset.key !== key) {
    replaceContents(byId("release-choice"), h("legend", {}, "Release"), ...radios);
    byId("release-choice").dataset.key = key;
  }
  if (changed || !query) query = chosen.questions[0].query;
  if (changed) clearAnswer();
  fillQuestions(chosen);
}

function switchRelease(chosen, ready) {
  chosenRelease = chosen.name;
  chooseRelease(chosen, ready);
  byId("bin-search").value = "";
  reloadOnFailure(Promise.all([showSeries(), showBins()]));
}

// Clears the answer, so that the answer to another question is not shown below this one.
function clearAnswer() {
  [series, period] = [null, null];
  byId("asked").textContent = "Loading…";
  for (const id of ["reading-value", "reading-rest"]) byId(id).textContent = "";
  byId("answers-table").replaceChildren();
  byId("period").disabled = true;
  redraw();
}

function fillQuestions(chosen) {
  const select = byId("question");
  const listed = chosen.questions.map((one) => h("option", { value: one.query }, one.label));
  if (!chosen.questions.some((one) => one.query === query)) listed.push(h("option", { value: query }, `bin ${query.replace(/^bin:/, "")}`));
  select.replaceChildren(...listed);
  select.value = query;
}

function chooseQuery(next) {
  query = next;
  clearAnswer();
  fillQuestions(currentRelease());
  reloadOnFailure(showSeries());
  for (const button of byId("bins").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.query === query));
}

async function showSeries() {
  const [requestedRelease, requestedQuery] = [release, query];
  const requestedView = JSON.stringify(viewParameters());
  const found = await getJson("series", [["release", release], ["query", query], ...viewParameters()]);
  // The reader may have chosen something else meanwhile.
  if (requestedRelease !== release || requestedQuery !== query || requestedView !== JSON.stringify(viewParameters())) return;
  [series, seriesRelease] = [found.series[0], currentRelease()];
  const slider = byId("period");
  slider.disabled = false;
  if (series.periods.length) [slider.min, slider.max] = [series.periods[0], series.periods.at(-1)];
  byId("asked").textContent = series.unit === "people" ? `Number of ${series.label}` : `Share of ${status.open ? "those present" : "people"} with ${series.label}`;
  showTable();
  choosePeriod(period);
}

function choosePeriod(next) {
  if (series === null) return;
  const newest = series.periods.at(-1);
  period = next === newest ? null : next;
  const nearest = series.periods.reduce((best, one) => (Math.abs(one - (period ?? newest)) < Math.abs(best - (period ?? newest)) ? one : best), newest);
  const index = series.periods.indexOf(nearest);
  if (index < 0) {
    byId("reading-value").textContent = "–";
    byId("reading-rest").textContent = "no period yet";
    return;
  }
  const [value, low, high] = [series.value[index], series.low[index], series.high[index]];
  const half = (high - low) / 2;
  byId("reading-value").textContent = formatAnswer(series.unit, value, half);
  byId("reading-rest").textContent = `in period ${formatInteger(nearest)}, 95% interval ${formatAnswerInterval(series.unit, low, high)}${clampingNote(nearest)}`;
  const slider = byId("period");
  slider.value = nearest;
  slider.setAttribute("aria-valuetext", `Period ${nearest}: ${formatAnswer(series.unit, value, half)}, 95% interval ${formatAnswerInterval(series.unit, low, high)}${clampingNote(nearest)}`);
  redraw();
}

// The periods in which intervals are too narrow. Intervals of some kinds account for clamping.
function clampedPeriods(chosen) {
  return chosen.clamping_narrows_intervals ? chosen.clamped_periods : [];
}

function clampingNote(one) {
  return clampedPeriods(seriesRelease).includes(one) ? ", too narrow: bins were clamped" : "";
}

function drawChart(width) {
  if (series === null) return h("p", { class: "empty" }, "Loading…");
  if (!series.periods.length) return h("p", { class: "empty" }, status.open ? "Too few people can be asked in these periods." : "This question can be answered from a later period on.");
  const drawing = lineChart(series, shownPeriods(status.horizon, series, view()), width, period ?? series.periods.at(-1), clampedPeriods(seriesRelease));
  // Aligns the slider with the chart: its thumb, 16 pixels wide, is below the point that it selects.
  const [left, right] = drawing.span;
  byId("period").style.marginLeft = `${left - 8}px`;
  byId("period").style.width = `${right - left + 16}px`;
  return drawing;
}

function showTable() {
  const marked = clampedPeriods(seriesRelease);
  const rows = series.periods.map((one, index) => {
    const half = (series.high[index] - series.low[index]) / 2;
    const cells = [series.value[index], series.low[index], series.high[index]].map((share) => h("td", { class: "number" }, formatAnswer(series.unit, share, half)));
    return h("tr", {}, h("th", { scope: "row" }, formatInteger(one)), cells, marked.length ? h("td", {}, marked.includes(one) ? "too narrow" : "") : null);
  });
  const head = ["Period", series.unit === "people" ? "People" : "Share", "Low", "High", ...(marked.length ? ["Interval"] : [])].map((name) => h("th", { scope: "col" }, name));
  byId("answers-table").replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

let searchTimer = 0;

function search() {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => reloadOnFailure(showBins()), 200);
}

async function showBins() {
  const [chosen, text] = [currentRelease(), byId("bin-search").value.trim()];
  const requestedView = JSON.stringify(viewParameters());
  const found = await getJson("bins", [["release", chosen.name], ["limit", MAX_BINS], ["search", text]]);
  const names = found.bins.map((bin) => bin.query);
  const all = names.length ? (await getJson("series", [["release", chosen.name], ...names.map((name) => ["query", name]), ...viewParameters()])).series : [];
  if (chosen.name !== release || text !== byId("bin-search").value.trim() || requestedView !== JSON.stringify(viewParameters())) return;
  byId("bins-title").textContent = chosen.counts_title;
  byId("bins-summary").textContent = `${describeBins(found, text)}${clampedPeriods(chosen).includes(chosen.columns) ? " Bins were clamped in the newest period: its intervals are too narrow." : ""}`;
  byId("bin-field").hidden = found.total <= MAX_BINS;
  replaceContents(byId("bins"), ...found.bins.map((bin, index) => binButton(bin, all[index])));
}

function describeBins(found, text) {
  const of = text ? `${formatCount(found.matched, "bin")} with “${text}”` : formatCount(found.total, "bin");
  const listed = found.bins.length < found.matched ? `The ${found.bins.length} largest of ${of}` : found.matched ? `All ${of}` : `No bin has “${text}” in its label`;
  const sinceEntry = found.bins.some((bin) => bin.label.startsWith("^")) ? " A label with ^ is everything since a person entered." : "";
  return `${listed}.${status.open ? sinceEntry : ""} Each chart has its own scale; the band is the 95% interval.`;
}

function breakable(label) {
  return label.split(/(?<=\|)/).flatMap((part) => [part, h("wbr")]);
}

function binButton(bin, binSeries) {
  const half = (bin.high - bin.low) / 2;
  const box = h("span", { class: "drawing" });
  const value = bin.value === null ? "–" : [formatPercent(bin.value, half), h("small", {}, ` ± ${formatPercent(half, half)}`)];
  const button = h(
    "button",
    { type: "button", class: "bin", "data-query": bin.query, "aria-pressed": String(bin.query === query), onclick: () => chooseQuery(bin.query) },
    h("span", { class: "bin-label" }, /^(atleast|spell):/.test(bin.query) ? `≥ ${bin.label}` : breakable(bin.label)),
    h("span", { class: "bin-value" }, value),
    box,
  );
  if (binSeries.periods.length) requestAnimationFrame(drawAtWidth(box, (width) => smallChart(binSeries, shownPeriods(status.horizon, binSeries, view()), width)));
  return button;
}
