// Replaces the parts of a page with newer ones from the server. A part with the focus or a selection stays.

// The parts as the server sent them: other scripts change what is on the page, times for example.
const served = new Map();

export function remember(page) {
  for (const part of page.querySelectorAll("[data-part]")) served.set(part.id, part.outerHTML);
}

// Whether a part was left as it was, because the focus or a selection is in it.
export function swap(next) {
  let held = false;
  for (const part of next.querySelectorAll("[data-part]")) {
    const html = part.outerHTML;
    const old = document.getElementById(part.id);
    if (old === null || served.get(part.id) === html) continue;
    if (isBusy(old)) {
      held = true;
      continue;
    }
    served.set(part.id, html);
    replace(old, document.adoptNode(part));
  }
  document.title = next.title;
  copyIcon(next);
  copyFacts(next);
  return held;
}

function isBusy(part) {
  if (part.querySelector("dialog[open]")) return true;
  const focus = document.activeElement;
  // An element that was clicked with the mouse also has the focus, but the reader does not navigate from it.
  if (focus && part.contains(focus) && focus.matches(":focus-visible, input, textarea, select")) return true;
  const chosen = getSelection();
  return chosen !== null && !chosen.isCollapsed && chosen.containsNode(part, true);
}

function replace(old, fresh) {
  for (const [was, is] of pairs(old, fresh, "details")) is.open = was.open;
  for (const [was, is] of pairs(old, fresh, "input, textarea, select")) {
    if (was.type !== "hidden" && was.name === is.name && "defaultValue" in was && was.value !== was.defaultValue) {
      is.value = was.value;
    }
  }
  const scrolled = pairs(old, fresh, "[tabindex]").map(([was, is]) => [is, was.scrollTop, was.scrollLeft]);
  old.replaceWith(fresh);
  for (const [is, top, left] of scrolled) {
    if (top || left) is.scrollTo({ top, left, behavior: "instant" });
  }
}

// Elements of both that are the same one: by id where there is one, else by their place.
function pairs(old, fresh, selector) {
  const all = (part) => [...(part.matches(selector) ? [part] : []), ...part.querySelectorAll(selector)];
  const before = all(old);
  return all(fresh).flatMap((is, place) => {
    const was = is.id ? before.find((one) => one.id === is.id) : before[place];
    return was ? [[was, is]] : [];
  });
}

function copyIcon(next) {
  const [icon, now] = [document, next].map((page) => page.querySelector("link[rel=icon]"));
  if (icon && now && icon.getAttribute("href") !== now.getAttribute("href")) icon.replaceWith(document.adoptNode(now));
}

// What the page says about itself, such as the newest event that it shows.
function copyFacts(next) {
  const [main, now] = [document, next].map((page) => page.querySelector("main"));
  if (!main || !now) return;
  for (const name of Object.keys(main.dataset)) if (!(name in now.dataset)) delete main.dataset[name];
  Object.assign(main.dataset, now.dataset);
}
