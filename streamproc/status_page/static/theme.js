// Before anything is drawn, so that nothing flashes. The choice stays in this browser; there are no cookies.
const THEMES = ["auto", "light", "dark"];

function chosenTheme() {
  try {
    const kept = localStorage.getItem("theme");
    return THEMES.includes(kept) ? kept : "auto";
  } catch {
    return "auto";
  }
}

function useTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

useTheme(chosenTheme());

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const name = document.getElementById("theme-name");
  button.hidden = false;
  name.textContent = chosenTheme();
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(name.textContent) + 1) % THEMES.length];
    name.textContent = next;
    useTheme(next);
    try {
      localStorage.setItem("theme", next);
    } catch {
      // It holds until the page is left.
    }
  });
});
