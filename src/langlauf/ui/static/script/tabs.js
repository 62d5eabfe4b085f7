// Panels as tabs: links become tabs by the ARIA pattern, the chosen one is in the address. Without this file the links
// still lead to their panels, and the sheet shows the one they lead to.

function upgrade(box) {
  const links = box.querySelector(":scope > .panel-links");
  if (!links || box.classList.contains("tabbed")) return;
  const tabs = [...links.querySelectorAll("a")];
  links.setAttribute("role", "tablist");
  for (const tab of tabs) {
    const panel = panelOf(tab);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    if (!panel.querySelector("a, button, summary, [tabindex]")) panel.tabIndex = 0;
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      choose(tabs, tab);
    });
  }
  links.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
    if (at < 0 || !(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = tabs[(steps[event.key] + tabs.length) % tabs.length];
    choose(tabs, next);
    next.focus();
  });
  show(tabs, named(tabs) ?? tabs[0]);
  box.classList.add("tabbed");
}

function panelOf(tab) {
  return document.getElementById(tab.hash.slice(1));
}

function named(tabs) {
  return tabs.find((tab) => tab.hash === location.hash);
}

function choose(tabs, chosen) {
  show(tabs, chosen);
  history.replaceState(history.state, "", chosen.hash);
}

function show(tabs, chosen) {
  for (const tab of tabs) {
    const selected = tab === chosen;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    panelOf(tab).hidden = !selected;
  }
}

// A chart has a light and a dark picture; who chose a theme by hand gets that one.
function dress() {
  const theme = document.documentElement.dataset.theme;
  for (const source of document.querySelectorAll("picture[data-themed] > source[data-dark]")) {
    const room = source.dataset.dark;
    source.media = { light: "not all", dark: room }[theme] ?? `${room} and (prefers-color-scheme: dark)`;
  }
}

function upgradeAll() {
  for (const box of document.querySelectorAll("[data-tabs]")) upgrade(box);
  dress();
}

window.addEventListener("hashchange", () => {
  for (const links of document.querySelectorAll(".tabbed > .panel-links")) {
    const tabs = [...links.querySelectorAll("a")];
    const wanted = named(tabs);
    if (wanted) show(tabs, wanted);
  }
});
document.addEventListener("langlauf:changed", upgradeAll);
new MutationObserver(dress).observe(document.documentElement, { attributeFilter: ["data-theme"] });
upgradeAll();
