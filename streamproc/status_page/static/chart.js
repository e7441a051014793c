// Charts drawn by hand: a line with its 95% band, the same in small, and bars of what is left.

import { s } from "/static/elements.js";
import { axisPercent, whole } from "/static/words.js";

const path = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

export function scaled(low, high, from, to) {
  const factor = high > low ? (to - from) / (high - low) : 0;
  return (value) => from + (value - low) * factor;
}

// Round numbers that span the range, about `count` of them.
export function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((candidate) => candidate >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, place) => (first + place) * step);
}

// From zero, unless that would squeeze what is to be seen into a small part of the chart.
export function range(series) {
  const low = Math.min(...series.low);
  const high = Math.max(...series.high);
  const room = (high - low || 0.01) * 0.12;
  return [low > 0 && low < high * 0.6 ? 0 : low - room, high + room];
}

// How far to the right a chart goes: to the end of the study, unless most of it would be empty.
export function reach(horizon, last) {
  return Math.min(horizon, Math.max(24, Math.ceil(1.35 * last)));
}

function band(series, x, y) {
  const upper = series.periods.map((period, place) => [x(period), y(series.high[place])]);
  const lower = series.periods.map((period, place) => [x(period), y(series.low[place])]);
  if (upper.length === 1) {
    const [[middle, top], [, bottom]] = [upper[0], lower[0]];
    return s("rect", { class: "band", x: middle - 5, y: top, width: 10, height: bottom - top, rx: 2 });
  }
  return s("path", { class: "band", d: `${path(upper)}L${path(lower.reverse()).slice(1)}Z` });
}

function line(series, x, y) {
  return s("path", { class: "line", d: path(series.periods.map((period, place) => [x(period), y(series.value[place])])) });
}

export function lineChart(series, horizon, width, chosen, doubtful) {
  const last = series.periods.at(-1);
  const end = reach(horizon, last);
  const height = width < 520 ? 240 : 320;
  const [left, right, top, bottom] = [48, 18, 14, 34];
  const x = end > 1 ? scaled(1, end, left + 14, width - right) : () => (left + width) / 2;
  const [low, high] = range(series);
  const y = scaled(low, high, height - bottom, top);
  const marks = ticks(low, high, 5);
  const step = marks.length > 1 ? marks[1] - marks[0] : 0.1;
  const decimals = Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-9) + (String(Math.round(step * 1e9)).startsWith("25") && step < 0.1 ? 1 : 0));
  const drawing = s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  for (const mark of marks) {
    drawing.append(
      s("line", { class: Math.abs(mark) < 1e-12 ? "zero" : "grid", x1: left, x2: width - right + 8, y1: y(mark), y2: y(mark) }),
      s("text", { class: "tick", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, axisPercent(mark, decimals)),
    );
  }
  if (low > 0) drawing.append(s("text", { class: "tick", x: left + 8, y: height - bottom - 8 }, "This scale does not begin at 0."));
  if (last < end) {
    const edge = x(last + 0.5);
    drawing.append(s("rect", { class: "future", x: edge, y: top, width: width - right + 8 - edge, height: height - bottom - top, rx: 3 }));
    if (width - right - edge > 70) drawing.append(s("text", { class: "tick", x: edge + 9, y: top + 17 }, "to come"));
  }
  const every = Math.max(1, ...ticks(1, end, Math.min(end, width / 46)).slice(0, 2).map((tick, place, both) => (place ? Math.round(tick - both[0]) : 1)));
  for (let period = 1; period <= end; period += 1) {
    if (period !== 1 && period % every !== 0 && every > 1) continue;
    if (every > 1 && period !== 1 && period < every / 2 + 1) continue;
    drawing.append(s("text", { class: "tick", x: x(period), y: height - bottom + 20, "text-anchor": "middle" }, whole(period)));
  }
  drawing.append(band(series, x, y), line(series, x, y));
  series.periods.forEach((period, place) => {
    const marked = doubtful.includes(period);
    if (marked || series.periods.length <= 60) drawing.append(s("circle", { class: marked ? "dot clamped" : "dot", cx: x(period), cy: y(series.value[place]), r: marked ? 4 : 3 }));
  });
  const place = Math.max(0, series.periods.indexOf(chosen));
  const [cx, cy] = [x(series.periods[place]), y(series.value[place])];
  drawing.append(
    s("line", { class: "whisker", x1: cx, x2: cx, y1: y(series.low[place]), y2: y(series.high[place]) }),
    s("line", { class: "whisker", x1: cx - 6, x2: cx + 6, y1: y(series.low[place]), y2: y(series.low[place]) }),
    s("line", { class: "whisker", x1: cx - 6, x2: cx + 6, y1: y(series.high[place]), y2: y(series.high[place]) }),
    s("circle", { class: "chosen", cx, cy, r: 5.5 }),
  );
  drawing.span = [x(series.periods[0]), x(last)];
  drawing.nearest = (pixel) =>
    series.periods.reduce((best, period) => (Math.abs(x(period) - pixel) < Math.abs(x(best) - pixel) ? period : best));
  return drawing;
}

export function smallChart(series, horizon, width, height = 54) {
  const end = reach(horizon, series.periods.at(-1));
  const x = end > 1 ? scaled(1, end, 4, width - 4) : () => width / 2;
  const [low, high] = range(series);
  const y = scaled(low, high, height - 3, 3);
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

// Rows in the smallest bin, a bar for each period, beside the padding every bin began with.
export function barChart(counts, first, padding, marked, width) {
  const [height, left, bottom, top] = [132, 44, 24, 10];
  const high = Math.max(padding, ...counts) * 1.08 || 1;
  const y = scaled(0, high, height - bottom, top);
  const step = (width - left) / counts.length;
  const bar = Math.max(1, Math.min(step * 0.62, 34));
  const drawing = s("svg", { class: "chart bars", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  const every = Math.ceil(counts.length / Math.max(2, (width - left) / 34));
  counts.forEach((count, place) => {
    const middle = left + step * (place + 0.5);
    const period = first + place;
    const shown = Math.max(height - bottom - y(count), 1.5);
    drawing.append(s("rect", { class: marked.includes(period) ? "bar clamped" : "bar", x: middle - bar / 2, y: height - bottom - shown, width: bar, height: shown, rx: Math.min(2, bar / 2) }));
    if (place % every === 0)
      drawing.append(s("text", { class: "tick", x: middle, y: height - 6, "text-anchor": "middle" }, whole(period)));
  });
  drawing.append(
    s("line", { class: "zero", x1: left, x2: width, y1: height - bottom, y2: height - bottom }),
    s("line", { class: "padding", x1: left, x2: width, y1: y(padding), y2: y(padding) }),
    s("text", { class: "tick", x: left - 8, y: y(padding) + 4, "text-anchor": "end" }, whole(padding)),
    s("text", { class: "tick", x: left - 8, y: height - bottom + 4, "text-anchor": "end" }, "0"),
  );
  return drawing;
}
