// One stream of hints from the server, opened again whenever it is lost.

const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;
// The server sends a comment every 15 seconds: silence for this long is a lost connection.
const SILENCE = 40_000;
const FIRST_BYTES = 10_000;
const MOST_JOBS = 50;

// The address for a set of topics: "org", or "job:" and an id. Beyond what one stream may name, the org speaks for all.
export function addressOf(base, topics) {
  const jobs = [...topics].filter((topic) => topic.startsWith("job:")).map((topic) => topic.slice(4));
  const query = new URLSearchParams();
  const many = jobs.length > MOST_JOBS;
  if (jobs.length && !many) query.set("jobs", jobs.join(","));
  if (many || topics.has("org")) query.set("org", "1");
  return `${base}?${query}`;
}

export class Source {
  #address = null;
  #running = false;
  #abort = null;
  #failures = 0;
  #heard;
  #lost;
  #alive;
  #wake = () => {};

  // `heard` gets each hint, `alive` is told of every sign of life, and `lost` of the end of a stream: how many failed in
  // a row, and the HTTP status where there was one.
  constructor({ heard, alive, lost }) {
    this.#heard = heard;
    this.#alive = alive;
    this.#lost = lost;
  }

  // Follows what is at an address; another one replaces it, null ends it.
  follow(address) {
    if (address === this.#address) return;
    this.#address = address;
    this.#abort?.abort();
    this.#wake();
    if (!this.#running && address !== null) this.#run();
  }

  tryNow() {
    this.#wake();
  }

  cut() {
    this.#abort?.abort(new Error("cut"));
  }

  async #run() {
    this.#running = true;
    while (this.#address !== null) {
      const address = this.#address;
      let status = 0;
      try {
        status = await this.#read(address);
      } catch {
        // Lost, or never there: what follows is the same.
      }
      if (address !== this.#address) continue;
      const clean = status === 200;
      this.#failures = clean ? 0 : this.#failures + 1;
      this.#lost({ failures: this.#failures, status });
      await this.#pause();
    }
    this.#running = false;
  }

  // Reads one stream to its end; the status, where it ended cleanly or was refused.
  async #read(address) {
    const abort = (this.#abort = new AbortController());
    let watch = setTimeout(() => abort.abort(), FIRST_BYTES);
    try {
      const answer = await fetch(address, {
        headers: { Accept: "text/event-stream" }, cache: "no-store", signal: abort.signal,
      });
      if (!answer.ok) return answer.status;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return answer.status;
        clearTimeout(watch);
        watch = setTimeout(() => abort.abort(), SILENCE);
        this.#failures = 0;
        this.#alive();
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        messages.forEach((message) => this.#take(message));
      }
    } finally {
      clearTimeout(watch);
    }
  }

  #take(message) {
    for (const line of message.split("\n")) {
      if (line.startsWith("data: ")) this.#heard(JSON.parse(line.slice(6)));
    }
  }

  // A little longer each time, and never at the same moment as everybody else.
  #pause() {
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.max(0, this.#failures - 1));
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, longest * (0.5 + Math.random() / 2));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
