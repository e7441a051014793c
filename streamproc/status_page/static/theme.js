// Sets the theme before the page is drawn, so that it does not flash. The choice is in local storage, not in a cookie.
const THEMES = ["auto", "light", "dark"];

function storedTheme() {
  try {
    const stored = localStorage.getItem("theme");
    return THEMES.includes(stored) ? stored : "auto";
  } catch {
    return "auto";
  }
}

function applyTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

applyTheme(storedTheme());

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const name = document.getElementById("theme-name");
  button.hidden = false;
  name.textContent = storedTheme();
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(name.textContent) + 1) % THEMES.length];
    name.textContent = next;
    applyTheme(next);
    try {
      localStorage.setItem("theme", next);
    } catch {
      // Without local storage the choice lasts until the page is closed.
    }
  });
});
