// All tabs of a browser share one stream: six connections are all that a browser has for a server over HTTP/1.1.
// The tab that holds the lock reads it for all; the others say what they follow and hear what it hears.

import { Source, addressOf } from "./source.js";

const SAY_AGAIN = 20_000;
// Timers of hidden tabs run once a minute.
const FORGOTTEN = 150_000;
const UNHEARD = 40_000;

export class Hub {
  #on;
  #base;
  #name;
  #id = `${Date.now()}-${Math.random()}`;
  #topics = null;
  #members = new Map();
  // The last hint of each topic and how the stream is: for tabs that come later.
  #hints = new Map();
  #state = null;
  #source;
  #channel = null;
  #resign = null;
  #waiting = null;
  #leading = false;
  #timer = 0;
  #heardAt = 0;

  // `name` is the same for tabs that may share: one application, one version, one org. `on` has `heard` for hints, `alive`
  // for signs of life and `lost` for the end of a stream.
  constructor(name, base, on) {
    this.#name = name;
    this.#base = base;
    this.#on = on;
    this.#source = new Source({
      heard: (hint) => this.#pass("heard", hint),
      alive: () => this.#pass("alive"),
      lost: (how) => this.#pass("lost", how),
    });
    this.shared = "locks" in navigator && "BroadcastChannel" in window;
  }

  join(topics) {
    this.#topics = [...topics];
    if (!this.shared) {
      this.#source.follow(addressOf(this.#base, new Set(topics)));
      return;
    }
    if (this.#channel === null) this.#enter();
    this.#say();
  }

  leave() {
    this.#topics = null;
    if (!this.shared) {
      this.#source.follow(null);
      return;
    }
    if (this.#channel === null) return;
    this.#channel.postMessage({ leave: this.#id });
    this.#channel.close();
    this.#channel = null;
    clearInterval(this.#timer);
    this.#waiting?.abort();
    this.#resign?.();
  }

  tryNow() {
    this.#source.tryNow();
    this.#channel?.postMessage({ tryNow: true });
  }

  cut() {
    this.#source.cut();
  }

  #enter() {
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = ({ data }) => this.#take(data);
    this.#heardAt = Date.now();
    this.#timer = setInterval(() => this.#say(), SAY_AGAIN);
    this.#waiting = new AbortController();
    const { signal } = this.#waiting;
    navigator.locks.request(this.#name, { signal }, () => this.#lead()).catch(() => {});
  }

  // Holds the lock, and the stream, until this tab leaves.
  async #lead() {
    if (this.#channel === null) return;
    this.#leading = true;
    this.#channel.postMessage({ who: true });
    this.#say();
    await new Promise((resolve) => (this.#resign = resolve));
    this.#leading = false;
    this.#resign = null;
    this.#members.clear();
    this.#hints.clear();
    this.#state = null;
    this.#source.follow(null);
  }

  // Says what this tab follows; one that has heard nothing for long asks for the stream to be looked at.
  #say() {
    if (this.#topics === null) return;
    const member = { join: this.#id, topics: this.#topics };
    if (this.#leading) this.#take(member);
    else this.#channel.postMessage(member);
    if (Date.now() - this.#heardAt > UNHEARD) this.#on.lost({ failures: 1, status: 0 });
  }

  #take(message) {
    if (message.pass && !this.#leading) this.#hear(message.pass, message.what);
    if (message.who) this.#say();
    if (!this.#leading) return;
    if (message.tryNow) this.#source.tryNow();
    if (message.leave) this.#members.delete(message.leave);
    if (message.join) {
      const known = this.#members.has(message.join);
      this.#members.set(message.join, { topics: message.topics, at: Date.now() });
      if (!known && message.join !== this.#id) this.#tell(message.topics);
    }
    if (message.join || message.leave) this.#gather();
  }

  #gather() {
    const oldest = Date.now() - FORGOTTEN;
    for (const [id, member] of this.#members) if (member.at < oldest && id !== this.#id) this.#members.delete(id);
    const topics = new Set([...this.#members.values()].flatMap((member) => member.topics));
    this.#source.follow(topics.size ? addressOf(this.#base, topics) : null);
  }

  // What a newcomer would have heard, had it been there.
  #tell(topics) {
    if (this.#state) this.#channel.postMessage(this.#state);
    for (const topic of topics) {
      if (this.#hints.has(topic)) this.#channel.postMessage({ pass: "heard", what: this.#hints.get(topic) });
    }
  }

  #pass(name, what) {
    if (!this.shared) {
      this.#on[name](what);
      return;
    }
    if (name === "heard") this.#hints.set("org" in what ? "org" : `job:${what.job}`, what);
    else this.#state = { pass: name, what };
    this.#channel?.postMessage({ pass: name, what });
    this.#hear(name, what);
  }

  #hear(name, what) {
    this.#heardAt = Date.now();
    this.#on[name](what);
  }
}
