// How close the smallest bin of each padded release is to zero, which would clamp it.

import { byId, drawAtWidth, h, replaceContents } from "/static/elements.js";
import { barChart } from "/static/chart.js";
import { formatCount, formatInteger } from "/static/words.js";

export function showHeadroom(status) {
  const padded = status.releases.filter((release) => release.padded);
  byId("headroom").hidden = padded.length === 0;
  replaceContents(byId("headroom-body"), ...padded.map(card));
}

function card(release) {
  const padding = release.padding;
  if (padding === null)
    return h("article", { class: "card" }, h("h3", {}, release.name), h("p", { class: "quiet-text" }, `The first columns appear when period ${release.first_column} is released.`));
  const box = h("div", { class: "drawing" });
  const redraw = drawAtWidth(box, (width) => barChart(padding.smallest_by_period, padding.first, padding.n_pad, release.clamped_periods, width));
  requestAnimationFrame(redraw);
  const counts = padding.smallest_by_period.map((count, index) =>
    h("tr", {}, h("th", { scope: "row" }, formatInteger(padding.first + index)), h("td", {}, formatInteger(count)), h("td", {}, release.clamped_periods.includes(padding.first + index) ? "clamped" : "")),
  );
  return h(
    "article",
    { class: "card" },
    h("h3", {}, release.name),
    h(
      "p",
      {},
      "The smallest bin is ",
      h("code", {}, padding.bin),
      ` with ${formatCount(padding.smallest, "synthetic person", "synthetic people")}; every bin began with ${formatInteger(padding.n_pad)} (dashed). `,
      release.clamped
        ? h("strong", { class: "clamped-text" }, `${formatCount(release.clamped, "count was", "counts were")} clamped at zero, in ${periods(release.clamped_periods)}: those answers are less accurate than their intervals state.`)
        : "No count was clamped.",
    ),
    box,
    h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Smallest bin of ${release.name} by period` }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Period"), h("th", { scope: "col" }, "Smallest bin"), h("th", { scope: "col" }, "Clamped"))), h("tbody", {}, counts)))),
  );
}

function periods(list) {
  return list.length > 6 ? `${list.length} periods` : `${list.length === 1 ? "period" : "periods"} ${list.join(", ")}`;
}
