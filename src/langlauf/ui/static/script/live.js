// Keeps a page as the server would show it now: hears that something changed, fetches this address again, and swaps the
// parts that differ. It also says how fresh the page is, and lets its reader stop all of that.

import { Hub } from "./hub.js";
import { remember, swap } from "./part_update.js";

const CHANGED = "langlauf:changed";
const LOOK = "langlauf:look";
const PAUSED = "langlauf.paused";
const BETWEEN_FETCHES = 500;
const POLL = 5_000;
const FETCH_SECONDS = 15_000;
// A tab that was hidden for this long is not updated until it is visible again.
const HIDDEN = 300_000;
const POLL_AFTER = 3;
// How long "Completed" is shown before its result is.
const MOMENT = 1_500;

const main = document.querySelector("main");
const badge = document.getElementById("live");
const text = badge?.querySelector(".live-text");
const pause = badge?.querySelector(".live-pause");
const again = badge?.querySelector(".live-again");
const alert = document.getElementById("live-alert");
const { lang } = document.documentElement;
const { locale } = document.body.dataset;
const here = new URL(".", import.meta.url);

// Storage may be forbidden; then a choice lasts as long as the page.
const storage = {
  read() {
    try {
      return localStorage.getItem(PAUSED) === "1";
    } catch {
      return false;
    }
  },
  write(value) {
    try {
      if (value) localStorage.setItem(PAUSED, "1");
      else localStorage.removeItem(PAUSED);
    } catch {
      // It was said above.
    }
  },
};

class Page {
  #hub;
  #state = "connecting";
  #failures = 0;
  #goodAt = new Date();
  #paused = storage.read();
  #asleep = false;
  #org = null;
  #wanted = false;
  #fetching = false;
  #held = false;
  #nextAt = 0;
  #fetchTimer = 0;
  #againTimer = 0;
  #pollTimer = 0;
  #sleepTimer = 0;
  #moving = false;
  #touched = false;
  #focused = "";

  constructor() {
    const on = {
      heard: (hint) => this.#heard(hint),
      alive: () => this.#alive(),
      lost: (how) => this.#lost(how),
    };
    this.#hub = new Hub(`${here.pathname}|${badge.dataset.org}`, new URL("../../stream", here).href, on);
    remember(document);
    pause.addEventListener("click", () => this.#setPaused(!this.#paused, true));
    again.addEventListener("click", () => this.#tryNow());
    addEventListener("storage", (event) => event.key === PAUSED && this.#setPaused(storage.read(), false));
    addEventListener("online", () => this.#tryNow());
    addEventListener("offline", () => this.#hub.cut());
    addEventListener("pagehide", () => this.#hub.leave());
    addEventListener("pageshow", (event) => event.persisted && this.#wake());
    document.addEventListener("visibilitychange", () => this.#seen());
    document.addEventListener(LOOK, (event) => this.#look(event));
    for (const kind of ["pointerdown", "keydown", "wheel", "touchmove"]) {
      addEventListener(kind, () => (this.#touched = true), { once: true, passive: true });
    }
    document.addEventListener("focusout", () => setTimeout(() => this.#held && this.#wish()));
    this.#start();
  }

  get #topics() {
    return main.dataset.follow?.split(" ") ?? [];
  }

  get #resting() {
    return this.#paused || this.#asleep || this.#topics.length === 0;
  }

  #start() {
    if (this.#resting) this.#hub.leave();
    else if (this.#hub.shared || !document.hidden) this.#hub.join(this.#topics);
    else this.#hub.leave();
    this.#plan();
    this.#show();
  }

  // What moves on without an event, such as a worker that falls silent, is looked at when the page says.
  #plan() {
    clearTimeout(this.#againTimer);
    clearTimeout(this.#pollTimer);
    if (this.#resting) return;
    const seconds = Number(main.dataset.again);
    if (seconds > 0) this.#againTimer = setTimeout(() => this.#wish(), seconds * 1_000);
    const blind = this.#state === "polling" || this.#state === "offline" || (!this.#hub.shared && document.hidden);
    if (blind) this.#pollTimer = setTimeout(() => this.#wish(), POLL);
  }

  #heard(hint) {
    const news = this.#topics.some((topic) => {
      if (topic === "org") return "org" in hint && hint.org !== this.#org;
      return topic === `job:${hint.job}` && !(hint.seq <= Number(main.dataset.at));
    });
    if ("org" in hint) this.#org = hint.org;
    if (news) this.#wish();
  }

  #alive() {
    const back = this.#state !== "live";
    this.#failures = 0;
    this.#goodAt = new Date();
    if (!back) return;
    const first = this.#state === "connecting";
    this.#become("live");
    if (!first) this.#wish();
  }

  #lost({ failures, status }) {
    this.#failures = failures;
    if (this.#resting) return;
    if (status === 401) this.#become("signedout");
    else if (!navigator.onLine) this.#become("offline");
    else if (this.#state === "live" || this.#state === "connecting") this.#become("reconnecting");
    else if (failures >= POLL_AFTER && this.#state === "reconnecting") this.#become("polling");
    if (failures >= 2 || !navigator.onLine) this.#wish();
  }

  #become(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#plan();
    this.#show();
  }

  #wish() {
    this.#wanted = true;
    this.#pump();
  }

  async #pump() {
    if (!this.#wanted || this.#fetching || this.#resting) return;
    const wait = this.#nextAt - performance.now();
    clearTimeout(this.#fetchTimer);
    if (wait > 0) {
      this.#fetchTimer = setTimeout(() => this.#pump(), wait);
      return;
    }
    this.#wanted = false;
    this.#fetching = true;
    this.#nextAt = performance.now() + BETWEEN_FETCHES;
    await this.#fetch();
    this.#fetching = false;
    this.#plan();
    this.#pump();
  }

  async #fetch() {
    let answer;
    let html;
    try {
      const signal = AbortSignal.timeout(FETCH_SECONDS);
      answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal });
      html = await answer.text();
    } catch {
      if (this.#failures || !navigator.onLine) this.#become("offline");
      return;
    }
    if (answer.status === 401) this.#become("signedout");
    else if (answer.status === 404 || answer.status === 410) location.reload();
    if (!answer.ok || this.#resting) return;
    this.#goodAt = new Date();
    if (this.#state === "offline") this.#become(this.#failures >= POLL_AFTER ? "polling" : "reconnecting");
    this.#take(new DOMParser().parseFromString(html, "text/html"));
  }

  #take(next) {
    if (!next.querySelector("main")) return;
    const followed = main.dataset.follow;
    this.#focused = document.activeElement?.id;
    this.#held = swap(next);
    if (main.dataset.follow !== followed) this.#start();
    const now = next.querySelector("meta[name=langlauf-now]")?.content;
    document.dispatchEvent(new CustomEvent(CHANGED, { detail: { now } }));
    this.#refocus();
    if (main.dataset.onward) this.#move(main.dataset.onward);
  }

  // A link that was clicked keeps the focus, also where it was drawn anew.
  #refocus() {
    if (this.#focused && document.activeElement === document.body) {
      document.getElementById(this.#focused)?.focus({ preventScroll: true });
    }
  }

  // What its reader did changed something: the page shows it at once, unless it rests.
  #look(event) {
    if (this.#resting || !navigator.onLine) return;
    event.preventDefault();
    this.#wish();
  }

  // On to where the page leads now, unless its reader has touched anything here: then a banner leads there. A page that
  // led there from the start stays.
  #move(onward) {
    if (this.#moving) return;
    this.#moving = true;
    document.documentElement.dataset.moment = "onward";
    const move = () => {
      // A page that is not looked at waits: opening the result marks its message as read.
      if (document.hidden) document.addEventListener("visibilitychange", move, { once: true });
      else if (!storage.read() && !this.#touched) location.assign(onward);
    };
    setTimeout(move, MOMENT);
  }

  #tryNow() {
    if (this.#resting) return;
    this.#hub.tryNow();
    this.#wish();
  }

  #setPaused(paused, write) {
    this.#paused = paused;
    if (write) storage.write(paused);
    if (!paused) this.#state = "connecting";
    this.#start();
    if (!paused) this.#wish();
  }

  #seen() {
    clearTimeout(this.#sleepTimer);
    if (document.hidden) {
      this.#sleepTimer = setTimeout(() => this.#sleep(), HIDDEN);
      if (!this.#hub.shared) this.#start();
    } else if (this.#asleep || !this.#hub.shared) {
      this.#wake();
    }
  }

  // A tab whose reader waits for a notice stays awake.
  #sleep() {
    if ("awaited" in document.documentElement.dataset) return;
    this.#asleep = true;
    this.#start();
  }

  #wake() {
    this.#asleep = false;
    this.#start();
    this.#wish();
  }

  #show() {
    const name = this.#topics.length === 0 ? "" : this.#paused ? "paused" : this.#state;
    document.documentElement.dataset.fresh = name;
    const time = this.#goodAt.toLocaleTimeString(locale);
    const words = name ? badge.dataset[name].replace("{time}", time) : "";
    if (text.textContent !== words) text.textContent = words;
    again.hidden = !["offline", "reconnecting", "polling"].includes(name);
    pause.textContent = this.#paused ? badge.dataset.resume : badge.dataset.pause;
    const lost = name === "offline" ? badge.dataset.lost.replace("{time}", time) : "";
    if (alert.textContent !== lost) alert.textContent = lost;
  }
}

if (main?.dataset.follow && badge) new Page();
