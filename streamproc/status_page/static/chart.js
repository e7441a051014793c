// Charts as SVG: a line with its 95% band, a small version of it, and bars of the smallest bin.

import { s } from "/static/elements.js";
import { formatAxisPercent, formatInteger, formatPeople } from "/static/words.js";

const path = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

export function linearScale(low, high, from, to) {
  const factor = high > low ? (to - from) / (high - low) : 0;
  return (value) => from + (value - low) * factor;
}

// About `count` round numbers within the range.
export function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((candidate) => candidate >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

// The range of the vertical axis. It starts at zero unless the line would then fill only a small part of the chart.
export function valueRange(series) {
  const low = Math.min(...series.low);
  const high = Math.max(...series.high);
  const room = (high - low || 0.01) * 0.12;
  return [low > 0 && low < high * 0.6 ? 0 : low - room, high + room];
}

// The first and the last period of the horizontal axis. It ends with the study, unless most of the chart would then be empty;
// of an open study it is the part of the study that is looked at.
export function shownPeriods(horizon, series, view) {
  if (view !== null) return [view.first, Math.max(view.last, view.first + 1)];
  return [1, Math.min(horizon, Math.max(24, Math.ceil(1.35 * series.periods.at(-1))))];
}

function band(series, x, y) {
  const upper = series.periods.map((period, index) => [x(period), y(series.high[index])]);
  const lower = series.periods.map((period, index) => [x(period), y(series.low[index])]);
  if (upper.length === 1) {
    const [[middle, top], [, bottom]] = [upper[0], lower[0]];
    return s("rect", { class: "band", x: middle - 5, y: top, width: 10, height: bottom - top, rx: 2 });
  }
  return s("path", { class: "band", d: `${path(upper)}L${path(lower.reverse()).slice(1)}Z` });
}

function line(series, x, y) {
  return s("path", { class: "line", d: path(series.periods.map((period, index) => [x(period), y(series.value[index])])) });
}

export function lineChart(series, [begin, end], width, chosen, clamped) {
  const last = series.periods.at(-1);
  const isCount = series.unit === "people";
  const height = width < 520 ? 240 : 320;
  const [left, right, top, bottom] = [48, 18, 14, 34];
  const x = end > begin ? linearScale(begin, end, left + 14, width - right) : () => (left + width) / 2;
  const [low, high] = valueRange(series);
  const y = linearScale(low, high, height - bottom, top);
  const marks = ticks(low, high, 5);
  const step = marks.length > 1 ? marks[1] - marks[0] : 0.1;
  const decimals = Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-9) + (String(Math.round(step * 1e9)).startsWith("25") && step < 0.1 ? 1 : 0));
  const drawing = s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  for (const mark of marks) {
    drawing.append(
      s("line", { class: Math.abs(mark) < 1e-12 ? "zero" : "grid", x1: left, x2: width - right + 8, y1: y(mark), y2: y(mark) }),
      s("text", { class: "tick", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, isCount ? formatPeople(mark) : formatAxisPercent(mark, decimals)),
    );
  }
  if (low > 0) drawing.append(s("text", { class: "tick", x: left + 8, y: height - bottom - 8 }, "This scale does not start at 0."));
  if (last < end) {
    const edge = x(last + 0.5);
    drawing.append(s("rect", { class: "future", x: edge, y: top, width: width - right + 8 - edge, height: height - bottom - top, rx: 3 }));
    if (width - right - edge > 70) drawing.append(s("text", { class: "tick", x: edge + 9, y: top + 17 }, "to come"));
  }
  const every = Math.max(1, ...ticks(begin, end, Math.min(end - begin + 1, width / 46)).slice(0, 2).map((tick, index, both) => (index ? Math.round(tick - both[0]) : 1)));
  for (let period = begin; period <= end; period += 1) {
    if (period !== begin && period % every !== 0 && every > 1) continue;
    if (every > 1 && period !== begin && period < begin + every / 2) continue;
    drawing.append(s("text", { class: "tick", x: x(period), y: height - bottom + 20, "text-anchor": "middle" }, formatInteger(period)));
  }
  drawing.append(band(series, x, y), line(series, x, y));
  series.periods.forEach((period, index) => {
    const marked = clamped.includes(period);
    if (marked || series.periods.length <= 60) drawing.append(s("circle", { class: marked ? "dot clamped" : "dot", cx: x(period), cy: y(series.value[index]), r: marked ? 4 : 3 }));
  });
  const index = Math.max(0, series.periods.indexOf(chosen));
  const [cx, cy] = [x(series.periods[index]), y(series.value[index])];
  drawing.append(
    s("line", { class: "whisker", x1: cx, x2: cx, y1: y(series.low[index]), y2: y(series.high[index]) }),
    s("line", { class: "whisker", x1: cx - 6, x2: cx + 6, y1: y(series.low[index]), y2: y(series.low[index]) }),
    s("line", { class: "whisker", x1: cx - 6, x2: cx + 6, y1: y(series.high[index]), y2: y(series.high[index]) }),
    s("circle", { class: "chosen", cx, cy, r: 5.5 }),
  );
  drawing.span = [x(series.periods[0]), x(last)];
  drawing.nearest = (pixel) =>
    series.periods.reduce((best, period) => (Math.abs(x(period) - pixel) < Math.abs(x(best) - pixel) ? period : best));
  return drawing;
}

export function smallChart(series, [begin, end], width, height = 54) {
  const x = end > begin ? linearScale(begin, end, 4, width - 4) : () => width / 2;
  const [low, high] = valueRange(series);
  const y = linearScale(low, high, height - 3, 3);
  const last = series.periods.length - 1;
  const zero = low <= 0 && high >= 0 ? s("line", { class: "zero", x1: 0, x2: width, y1: y(0), y2: y(0) }) : null;
  return s(
    "svg",
    { class: "chart small", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" },
    zero,
    band(series, x, y),
    line(series, x, y),
    s("circle", { class: "end", cx: x(series.periods[last]), cy: y(series.value[last]), r: 3 }),
  );
}

// A bar for the rows in the smallest bin in each period, with a line at the padding that every bin started with.
export function barChart(counts, first, padding, marked, width) {
  const [height, left, bottom, top] = [132, 44, 24, 10];
  const high = Math.max(padding, ...counts) * 1.08 || 1;
  const y = linearScale(0, high, height - bottom, top);
  const step = (width - left) / counts.length;
  const bar = Math.max(1, Math.min(step * 0.62, 34));
  const drawing = s("svg", { class: "chart bars", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  const every = Math.ceil(counts.length / Math.max(2, (width - left) / 34));
  counts.forEach((count, index) => {
    const middle = left + step * (index + 0.5);
    const period = first + index;
    const barHeight = Math.max(height - bottom - y(count), 1.5);
    drawing.append(s("rect", { class: marked.includes(period) ? "bar clamped" : "bar", x: middle - bar / 2, y: height - bottom - barHeight, width: bar, height: barHeight, rx: Math.min(2, bar / 2) }));
    if (index % every === 0)
      drawing.append(s("text", { class: "tick", x: middle, y: height - 6, "text-anchor": "middle" }, formatInteger(period)));
  });
  drawing.append(
    s("line", { class: "zero", x1: left, x2: width, y1: height - bottom, y2: height - bottom }),
    s("line", { class: "padding", x1: left, x2: width, y1: y(padding), y2: y(padding) }),
    s("text", { class: "tick", x: left - 8, y: y(padding) + 4, "text-anchor": "end" }, formatInteger(padding)),
    s("text", { class: "tick", x: left - 8, y: height - bottom + 4, "text-anchor": "end" }, "0"),
  );
  return drawing;
}
