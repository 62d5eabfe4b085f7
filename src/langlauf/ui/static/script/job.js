// What the page of a job does beyond being up to date: it asks before it stops a job, counts the time, copies, and says
// aloud what matters.

import { changed as CHANGED, now } from "./frame.js";
import "./send.js";

// New versions are said at most so often.
const BETWEEN_VERSIONS = 15_000;

const main = document.querySelector("main");
const said = document.getElementById("said");
const alarm = document.getElementById("alarm");

document.documentElement.dataset.scripted = "";

// -- dialogs: the question before a job is stopped, and the address of a mail ------------------------------------------

document.addEventListener("click", (event) => {
  const opener = event.target.closest?.("[data-opens]");
  const dialog = opener && document.getElementById(opener.dataset.opens);
  if (dialog) {
    event.preventDefault();
    dialog.showModal();
    return;
  }
  if (event.target.closest?.("[data-close]")) event.target.closest("dialog").close();
});

// Focus goes back to where it was; the button may have been drawn anew, or be gone.
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("close", () => (document.querySelector(`[data-opens=${dialog.id}]`) ?? main).focus());
}

// Twice is once.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button) setTimeout(() => (button.disabled = true));
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form [type=submit]:disabled")) button.disabled = false;
});

// -- copying -----------------------------------------------------------------------------------------------------------

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    select(text);
  }
  const before = button.textContent;
  button.textContent = button.dataset.copied;
  said.textContent = button.dataset.copied;
  setTimeout(() => (button.textContent = before), 2_000);
}

// Without https there is no clipboard; a field that is selected and copied is as good.
function select(text) {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy-link], [data-copies]");
  if (!button) return;
  const source = button.dataset.copies && document.getElementById(button.dataset.copies);
  copy(source ? source.textContent : location.href, button);
});

// -- a notice of the browser, when the job ends ------------------------------------------------------------------------

const root = document.documentElement;

function showNotify() {
  const button = document.querySelector("[data-notify]");
  if (!button) return;
  button.hidden = !("Notification" in window);
  const on = "awaited" in root.dataset;
  button.setAttribute("aria-pressed", String(on));
  button.textContent = on ? button.dataset.on : button.dataset.notify;
}

async function switchNotify(button) {
  if ("awaited" in root.dataset) {
    delete root.dataset.awaited;
  } else if ((await Notification.requestPermission()) === "granted") {
    root.dataset.awaited = "";
  }
  const on = "awaited" in root.dataset;
  said.textContent = on ? button.dataset.kept : Notification.permission === "denied" ? button.dataset.denied : "";
  document.getElementById("notify-note").textContent = said.textContent;
  showNotify();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-notify]");
  if (button) switchNotify(button);
});

function notifyOfEnd() {
  if (!("awaited" in root.dataset) || main.dataset.follow) return;
  delete root.dataset.awaited;
  document.getElementById("notify-note").textContent = "";
  const notice = new Notification(document.title, { tag: location.pathname, lang: root.lang });
  notice.addEventListener("click", () => {
    focus();
    notice.close();
  });
}

showNotify();

// -- time --------------------------------------------------------------------------------------------------------------

function clock(seconds) {
  const [hours, minutes, rest] = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// Time stands still while nobody knows whether the job goes on.
function tick() {
  if (!["live", "polling"].includes(document.documentElement.dataset.fresh)) return;
  for (const one of document.querySelectorAll("[data-elapsed]")) {
    const seconds = Math.max(0, (now() - new Date(one.dataset.elapsed)) / 1000);
    one.textContent = clock(seconds);
  }
}

setInterval(tick, 1_000);

// -- saying ------------------------------------------------------------------------------------------------------------

let { milestone, version } = main.dataset;
let alarmed = "alarm" in main.dataset;
let versionSaidAt = 0;

function say() {
  if (main.dataset.milestone !== milestone) {
    milestone = main.dataset.milestone;
    said.textContent = milestone;
  } else if (main.dataset.version !== version && Date.now() - versionSaidAt > BETWEEN_VERSIONS) {
    versionSaidAt = Date.now();
    said.textContent = main.dataset.version;
  }
  version = main.dataset.version;
  if ("alarm" in main.dataset && !alarmed) {
    alarmed = true;
    alarm.textContent = main.dataset.alarm;
  }
}

document.addEventListener(CHANGED, () => {
  say();
  showNotify();
  notifyOfEnd();
  if (!main.dataset.follow) document.querySelector("dialog[open]")?.close();
});
