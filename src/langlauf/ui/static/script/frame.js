// What every page does with a script: times in the reader's zone, shortcuts, colours. All of it can be done without.

export const changed = "langlauf:changed";
const root = document.documentElement;
const { locale } = document.body.dataset;

// Times ----------------------------------------------------------------------------------------------------------

let offset = 0;

/** Returns the server's time, so that ages are right where the reader's clock is wrong. */
export function heard(serverTime, at = Date.now()) {
  const time = Date.parse(serverTime);
  if (!Number.isNaN(time)) offset = time - at;
}

/** The time now, by the server's clock. */
export const now = () => Date.now() + offset;

const full = new Intl.DateTimeFormat(locale, {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
const UNITS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];

/** How long ago a time was, or how far ahead it is, in its largest whole unit. */
export function ago(time) {
  let value = (time - now()) / 1000;
  for (const [unit, many] of UNITS) {
    if (Math.abs(value) < many) return relative.format(Math.trunc(value), unit);
    value /= many;
  }
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showTime(element) {
  const time = Date.parse(element.dateTime);
  if (Number.isNaN(time)) return;
  const words = full.format(time);
  if (element.hasAttribute("data-ago")) {
    say(element, ago(time));
    if (element.title !== words) element.title = words;
  } else if (!element.title) {
    element.title = element.textContent;
    say(element, words);
  }
}

/** Writes all times of the page for its reader. */
export function showTimes() {
  document.querySelectorAll("time[datetime]").forEach(showTime);
}

function sayZone() {
  const named = new Intl.DateTimeFormat(locale, { timeZoneName: "long" }).formatToParts(Date.now());
  const zone = named.find((part) => part.type === "timeZoneName")?.value;
  for (const line of document.querySelectorAll("[data-zone]")) {
    if (zone) say(line, line.dataset.zone.replace("{zone}", zone));
  }
  for (const field of document.querySelectorAll("input[data-own-zone]")) {
    field.value = new Intl.DateTimeFormat().resolvedOptions().timeZone ?? field.value;
  }
}

function readClock() {
  const [visit] = performance.getEntriesByType("navigation");
  if (visit?.transferSize === 0) return; // a page from the browser's cache has an old time
  const age = visit ? Math.max(0, performance.now() - visit.responseStart) : 0;
  heard(document.querySelector("meta[name=langlauf-now]")?.content, Date.now() - age);
}

// Shortcuts ------------------------------------------------------------------------------------------------------

const list = document.getElementById("shortcuts");
const WAIT = 1500;
let going = 0;

function search() {
  const field = document.querySelector("input[type=search]");
  if (field) {
    field.focus();
    field.select();
  } else {
    list.querySelector("[data-key=j]")?.click();
  }
}

function pressed(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (target.closest?.("input, select, textarea, [contenteditable], dialog")) return;
  if (Date.now() - going < WAIT) {
    going = 0;
    const link = list.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
  } else if (key === "g") {
    going = Date.now();
  } else if (key === "?" || key === "/") {
    event.preventDefault();
    if (key === "?") list.showModal();
    else search();
  }
}

// Colours --------------------------------------------------------------------------------------------------------

const THEMES = ["", "light", "dark"];

async function switchTheme(event) {
  const form = event.target.closest("[data-theme-switch]");
  if (!form) return;
  event.preventDefault();
  const button = form.querySelector("button");
  const theme = button.value;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  document.querySelector("meta[name=color-scheme]").content = theme || "light dark";
  button.value = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  button.title = button.dataset[theme || "system"];
  say(button.querySelector("span"), button.title);
  // Remembered where that can be; the page in hand has the colours all the same.
  await fetch(form.action, { method: "POST", body: new URLSearchParams({ theme }), redirect: "manual" }).catch(() => {});
}

// Pages behind "More" ---------------------------------------------------------------------------------------------

const more = document.querySelector(".more-pages");

function closeMore(event) {
  if (!more.open || (event.type === "keydown" && event.key !== "Escape")) return;
  if (event.type === "click" && more.contains(event.target)) return;
  if (more.contains(document.activeElement)) more.querySelector("summary").focus();
  more.open = false;
}

if (more) for (const kind of ["click", "keydown"]) document.addEventListener(kind, closeMore);

readClock();
showTimes();
sayZone();
setInterval(showTimes, 1000);
document.addEventListener(changed, (event) => {
  if (event.detail?.now) heard(event.detail.now);
  showTimes();
});
document.addEventListener("submit", switchTheme);
if (list) {
  document.addEventListener("keydown", pressed);
  list.querySelector("button").addEventListener("click", () => list.close());
}
document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
