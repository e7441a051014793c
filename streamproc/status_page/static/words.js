// Formats numbers and times for people.

export const formatInteger = (number) => number.toLocaleString("en");

// A cost rounded up to significant digits, so that it is never shown smaller than it is.
export function formatCost(number, digits = 4, aligned = false) {
  if (number === 0) return "0";
  const nearest = number.toExponential(digits - 1);
  const unit = 10 ** (Number(nearest.split("e")[1]) + 1 - digits);
  const up = Number(nearest) < number ? Number(nearest) + unit : Number(nearest);
  return up.toLocaleString("en", {
    minimumSignificantDigits: aligned ? digits : 1,
    maximumSignificantDigits: digits,
    useGrouping: false,
  });
}

// An epsilon to as many digits as the commands show.
export const formatEpsilon = (number) => formatCost(number, 3);

// The number of decimals of a percentage that are meaningful for a share with this half-width.
function decimals(half) {
  return half >= 0.004 ? 1 : half >= 0.0004 ? 2 : 3;
}

export function formatPercent(share, half) {
  const text = (100 * share).toFixed(decimals(half));
  return `${Number(text) === 0 ? text.replace("-", "") : text.replace("-", "\u2212")}%`;
}

export const formatPeople = (count) => formatInteger(Math.round(count)).replace("-", "\u2212");

// An answer and its interval: a share in percent, or a number of people.
export const formatAnswer = (unit, value, half) => (unit === "people" ? formatPeople(value) : formatPercent(value, half));

export const formatAnswerInterval = (unit, low, high) => (unit === "people" ? `${formatPeople(low)} to ${formatPeople(high)}` : formatInterval(low, high));

export function formatAxisPercent(share, decimals) {
  return `${(100 * share).toFixed(decimals).replace(/^-(?=0\.?0*$)/, "").replace("-", "\u2212")}%`;
}

export function formatInterval(low, high) {
  const half = (high - low) / 2;
  return `${formatPercent(low, half).slice(0, -1)} to ${formatPercent(high, half)}`;
}

export function formatCount(count, one, many = `${one}s`) {
  return `${formatInteger(count)} ${count === 1 ? one : many}`;
}

export function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : bytes < 1e9 ? [bytes / 1e6, "MB"] : [bytes / 1e9, "GB"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

export function formatDuration(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const [d, hours, m, sec] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60, left % 60];
  if (d > 0) return `${d} d ${hours} h ${m} min`;
  if (hours > 0) return `${hours} h ${m} min`;
  return m > 0 ? `${m} min ${String(sec).padStart(2, "0")} s` : `${sec} s`;
}

export function formatTime(text) {
  return new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" }) + " UTC";
}

// A probability as "1 in 1,000,000" instead of 1e-06.
export function formatChance(delta) {
  const inverse = Math.round(1 / delta);
  return Math.abs(inverse * delta - 1) < 1e-9 ? `1 in ${formatInteger(inverse)}` : String(delta);
}

// A delta as 10⁻⁶ instead of 0.000001.
export function formatDelta(delta) {
  const power = Math.round(Math.log10(delta));
  if (Math.abs(10 ** power / delta - 1) > 1e-9 || power > -3) return String(delta);
  return `10⁻${[...String(-power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

export const shortDigest = (digest) => digest.slice(0, 12);
