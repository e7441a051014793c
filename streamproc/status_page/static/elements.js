// Elements from plain values. Text is always text: nothing here parses HTML.

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

export const at = (id) => document.getElementById(id);

export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

const USABLE = "a, button, input, select, summary, [tabindex]";

// Puts new children in place of the old, and leaves the reader where they were: focus, and tables that were opened.
export function renew(container, ...children) {
  const place = [...container.querySelectorAll(USABLE)].indexOf(document.activeElement);
  const open = [...container.querySelectorAll("details")].map((details) => details.open);
  container.replaceChildren(...children);
  container.querySelectorAll("details").forEach((details, at) => (details.open = open[at] ?? false));
  if (place >= 0) container.querySelectorAll(USABLE)[place]?.focus({ preventScroll: true });
}

// Draws into a box at its width in pixels, and again when that changes.
export function drawn(box, draw) {
  let width = 0;
  const again = () => {
    width = box.clientWidth;
    if (width > 0) box.replaceChildren(draw(width));
  };
  new ResizeObserver(() => {
    if (box.clientWidth !== width) again();
  }).observe(box);
  return again;
}
