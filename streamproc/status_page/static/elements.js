// Creates DOM elements. Strings are always added as text: nothing here parses HTML.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

export function visuallyHidden(text) {
  return h("span", { class: "visually-hidden" }, text);
}

const FOCUSABLE = "a, button, input, select, summary, [tabindex]";

// Replaces the children of an element, and keeps the focus and the open state of tables.
export function replaceContents(container, ...children) {
  const focusIndex = [...container.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  const open = [...container.querySelectorAll("details")].map((details) => details.open);
  container.replaceChildren(...children);
  container.querySelectorAll("details").forEach((details, index) => (details.open = open[index] ?? false));
  if (focusIndex >= 0) container.querySelectorAll(FOCUSABLE)[focusIndex]?.focus({ preventScroll: true });
}

// Draws into a box at its width in pixels, and redraws when the width changes. Returns the function that redraws.
export function drawAtWidth(box, draw) {
  let width = 0;
  const redraw = () => {
    width = box.clientWidth;
    if (width > 0) box.replaceChildren(draw(width));
  };
  new ResizeObserver(() => {
    if (box.clientWidth !== width) redraw();
  }).observe(box);
  return redraw;
}
