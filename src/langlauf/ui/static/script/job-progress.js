// <job-progress>: shows one job of a Langlauf server on any page, live, with a token for that job alone.
// One file without dependencies; docs/element.md says how it is used.

const WORDS = {
  en: {
    queued: "Waiting to start", scheduled: "Scheduled", waiting: "Waiting for a worker", backoff: "Waiting for the next attempt",
    running: "Running", silent: "Worker not responding", partial: "Interim result, still running",
    canceling: "Cancel requested", completed: "Completed", failed: "Failed", canceled: "Canceled",
    progress: "Progress", version: "interim result {n}",
    moment: "less than 10 s left", seconds: "about {n} s left", minutes: "about {n} min left",
    hours: "about {h} h {n} min left", at: "next attempt at {time}", start: "starts at {time}", kept: "The last interim result stays available.",
    connecting: "Loading…", reconnecting: "Reconnecting…", polling: "Live (polling)", paused: "Paused",
    offline: "Connection lost at {time}. The job continues on the server.", next: "Next attempt in {n} s.",
    again: "Retry now", refused: "This job cannot be shown: the permission has expired, or the link is wrong.",
    cancel: "Cancel…", title: "Cancel this job?", keep: "Keep running", stop: "Cancel job",
    text: "Interim results stay available. This cannot be undone. The job can be run again.",
    notCanceled: "The job could not be canceled.", tooLate: "It had not started by its latest start.",
  },
  de: {
    queued: "Wartet auf Start", scheduled: "Geplant", waiting: "Wartet auf einen Worker", backoff: "Wartet auf den nächsten Versuch",
    running: "Läuft", silent: "Worker antwortet nicht", partial: "Zwischenstand, läuft weiter",
    canceling: "Abbruch angefordert", completed: "Abgeschlossen", failed: "Fehlgeschlagen", canceled: "Abgebrochen",
    progress: "Fortschritt", version: "Zwischenstand {n}",
    moment: "noch unter 10 s", seconds: "noch etwa {n} s", minutes: "noch etwa {n} min",
    hours: "noch etwa {h} h {n} min", at: "nächster Versuch um {time}", start: "startet um {time}", kept: "Der letzte Zwischenstand bleibt verfügbar.",
    connecting: "Lädt…", reconnecting: "Verbindung wird erneuert…", polling: "Live (Abfrage)", paused: "Pausiert",
    offline: "Verbindung um {time} verloren. Der Job läuft auf dem Server weiter.",
    next: "Nächster Versuch in {n} s.", again: "Jetzt verbinden",
    refused: "Dieser Job kann nicht gezeigt werden: Die Berechtigung ist abgelaufen, oder der Link ist falsch.",
    cancel: "Abbrechen…", title: "Diesen Job abbrechen?", keep: "Weiterlaufen lassen", stop: "Job abbrechen",
    text: "Zwischenstände bleiben verfügbar. Das lässt sich nicht rückgängig machen. Der Job kann erneut ausgeführt werden.",
    notCanceled: "Der Abbruch war nicht möglich.", tooLate: "Er war zum spätesten Startzeitpunkt noch nicht gestartet.",
  },
};

const RING = "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2";
const DISC = "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1";
// Each state has a shape of its own: lines, areas, and what is cut out of an area.
const SHAPES = {
  queued: [RING], waiting: [`${RING}M8 4.5V8l2.5 2`], running: [RING, "M8 8V2a6 6 0 0 1 6 6z"],
  silent: [`${RING}M8 4.5V9m0 2.3v.1`], partial: [RING, "M8 2a6 6 0 0 1 0 12z"], canceling: [`${RING}M4 12l8-8`],
  completed: ["", DISC, "M4.7 8.3l2.3 2.3 4.3-4.8"],
  failed: ["", "M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z", "M5.5 5.5l5 5m0-5l-5 5"],
  canceled: ["M4 2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2zM5 8h6"],
};
SHAPES.backoff = SHAPES.scheduled = SHAPES.waiting;
SHAPES.paused = [`${RING}M6.3 5.3v5.4m3.4-5.4v5.4`];

const INKS = {
  queued: "#5e676f,#8e99a6,#eef0f3,#22272e", running: "#083cb3,#79b0ff,#e6effc,#12305c",
  partial: "#885e04,#f2c14e,#fdf1d6,#3d2e00", completed: "#076e4d,#35d6a8,#e0f5ee,#073d31",
  failed: "#7c1613,#ff8577,#fde8e6,#4d1713", canceled: "#3b303e,#ded4e6,#efeaf0,#332b38",
};
const inks = Object.entries(INKS).map(([state, colours]) => {
  const [ink, dark, chip, darkChip] = colours.split(",");
  return `.${state}{--ink:var(--job-${state},light-dark(${ink},${dark}));--chip:var(--job-${state}-chip,light-dark(${chip},${darkChip}))}`;
});

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
:host{display:block}
:host([hidden]),[hidden]{display:none!important}
:host([variant=chip]){display:inline-block}
#box{--track:var(--job-track,light-dark(#e3e7ec,#2b313a));--muted:var(--job-muted,light-dark(#4b5563,#aab4c0));--action:var(--job-action,light-dark(#083cb3,#79b0ff));line-height:1.5}
.line{display:flex;flex-wrap:wrap;align-items:center;gap:.25em .75em}
.chip{display:inline-flex;align-items:center;gap:.375em;border-radius:999px;padding:.125em .75em .125em .5em;font-weight:600;color:var(--ink);background:var(--chip)}
svg{flex:none;width:1.15em;height:1.15em;fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.drawn{stroke:currentColor}.area{fill:currentColor}.cut{stroke:var(--chip)}
#label{overflow-wrap:anywhere}#percent{margin-inline-start:auto;font-variant-numeric:tabular-nums}
progress{appearance:none;display:block;width:100%;height:.5em;margin-block:.5em;border:0;border-radius:999px;overflow:hidden;background:var(--track);color:var(--ink)}
progress::-webkit-progress-bar{background:var(--track)}
progress::-webkit-progress-value{background:var(--ink)}
progress::-moz-progress-bar{background:var(--ink)}
progress:indeterminate,.stale progress{background:repeating-linear-gradient(135deg,var(--track) 0 .5em,var(--muted) .5em .6em)}
progress:indeterminate::-webkit-progress-bar,.stale progress::-webkit-progress-bar{background:transparent}
progress:indeterminate::-moz-progress-bar{background:transparent}
#more,#fresh{margin:0;color:var(--muted);font-size:.875em}
#error,#alert{margin:.25em 0 0;overflow-wrap:anywhere}
#status{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.actions{display:flex;flex-wrap:wrap;gap:.5em;margin-block-start:.5em}
button{min-height:1.75em;padding:.25em .9em;border:1px solid var(--action);border-radius:6px;background:transparent;color:var(--action);font:inherit;cursor:pointer}
button:disabled{opacity:.6;cursor:default}
:focus-visible{outline:2px solid var(--action);outline-offset:2px}
dialog{max-width:min(26em,calc(100vw - 4em));border:1px solid var(--muted);border-radius:8px;background:Canvas;color:CanvasText}
dialog h2{margin:0 0 .5em;font-size:1.15em}
:host([variant=bar]) :is(.chip,#label,#more),:host([variant=chip]) :is(progress,#label,#percent,#more,#actions){display:none}
${inks.join("")}
@media(pointer:coarse){button{min-height:44px}}
@media(forced-colors:active){.chip,progress{border:1px solid CanvasText}.cut{stroke:Canvas}}
`);

const ENDED = ["completed", "failed", "canceled"];
const SILENCE = 40_000;
const REFRESH = 15_000;
const MOST_STREAMS = 4; // browsers open six connections to an origin; the page itself needs some
const MOST_FAILURES = 3;
const POLLS_BEFORE_STREAM = 12;
const FINAL = [400, 401, 403, 404, 410];
const sleep = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

/** The address of a job in the API, from that address or from the one of the job's page. */
function apiOf(src, prefix) {
  const url = new URL(src, document.baseURI);
  const [, root, id] = url.pathname.match(/^(.*)\/jobs\/([^/]+)\/?$/) ?? [];
  if (!id) throw new TypeError(`job-progress: ${src} is not the address of a job`);
  return `${url.origin}${root.endsWith(prefix) ? root : root + prefix}/jobs/${id}`;
}

/** Follows one job for all elements that show it. */
class Follower {
  static #all = new Map();
  static #streams = 0;
  #listeners = new Set();
  #stopping = new AbortController();
  #waking = new AbortController();
  #failures = 0;
  #seq = 0;

  /** The one follower of a job and token. */
  static of(api, token, poll) {
    const key = `${api} ${token}`;
    if (!this.#all.has(key)) this.#all.set(key, new Follower(api, token, poll, () => this.#all.delete(key)));
    return this.#all.get(key);
  }

  constructor(api, token, poll, forget) {
    Object.assign(this, { api, token, poll, forget, job: null, snapshot: null, connection: "connecting", at: null, nextAt: null });
  }

  add(listener) {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.#run();
  }

  remove(listener) {
    this.#listeners.delete(listener);
    if (this.#listeners.size) return;
    this.#stopping.abort();
    this.wake();
    this.forget();
  }

  /** Ends a wait. */
  wake() {
    this.#waking.abort();
    this.#waking = new AbortController();
  }

  #emit(kind, detail) {
    for (const listener of this.#listeners) listener(kind, detail);
  }

  #connect(connection, nextAt = null) {
    const same = connection === this.connection;
    Object.assign(this, { connection, nextAt });
    this.#emit(same ? null : "connection", { state: connection, nextAt });
  }

  /** Asks the server; an answer that will never be another one is marked as final. */
  async ask(path = "", options = {}) {
    const answer = await fetch(this.api + path, {
      cache: "no-store", credentials: "omit", ...options,
      headers: { ...(this.token && { Authorization: `Bearer ${this.token}` }), ...options.headers },
    });
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(problem.message ?? `HTTP ${answer.status}`), {
      status: answer.status, code: problem.error ?? "internal", final: FINAL.includes(answer.status),
    });
  }

  /** The job as it is now. */
  async load() {
    const answer = await this.ask("", { signal: AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(SILENCE)]) });
    this.wait = 1000 * (this.poll || Number(answer.headers.get("Retry-After")) || 5);
    const { job } = await answer.json();
    delete job.events;
    this.take(job);
  }

  /** Stores the newest state and announces changes. Progress never decreases. */
  take(job) {
    const old = this.job;
    if (old && job.event_seq < old.event_seq) return;
    job.progress_percent = Math.max(job.progress_percent, old?.progress_percent ?? 0);
    this.#seq = Math.max(this.#seq, job.event_seq);
    Object.assign(this, { job, at: new Date() });
    const is = (...names) => !old || names.some((name) => old[name] !== job[name]);
    if (job.result_id && is("result_id")) {
      const url = `${this.api.replace(/\/jobs\/[^/]+$/, "")}/results/${job.result_id}?view=requested`;
      this.snapshot = { result_id: job.result_id, version: job.result_seq ?? job.partial_count, url };
      if (!ENDED.includes(job.status)) this.#emit("partial", { ...this.snapshot, job });
    }
    if (is("progress_percent", "step")) this.#emit("progress", { percent: job.progress_percent, step: job.step, job });
    if (is("status", "phase")) this.#emit("status", { status: job.status, phase: job.phase, job });
    if (ENDED.includes(job.status) && is("status")) this.#emit("done", { status: job.status, job });
    this.#emit(null);
  }

  async #run() {
    const stopped = this.#stopping.signal;
    for (let polls = 0; !stopped.aborted;) {
      try {
        await this.load();
        if (ENDED.includes(this.job.status)) return this.#connect("ended");
        const polling = this.#failures >= MOST_FAILURES || Follower.#streams >= MOST_STREAMS;
        if (polling && ++polls % POLLS_BEFORE_STREAM) {
          this.#connect("polling");
          await sleep(this.wait, AbortSignal.any([stopped, this.#waking.signal]));
        } else {
          await this.#stream().catch((error) => { error.stream = true; throw error; });
        }
      } catch (error) {
        if (stopped.aborted) return;
        if (error.final && !(error.stream && error.status === 400)) {
          this.#emit("error", { code: error.code, status: error.status, message: error.message });
          return this.#connect("refused");
        }
        this.#failures++;
        const pause = Math.min(30_000, 500 * 2 ** this.#failures) * (0.5 + Math.random() / 2);
        this.#connect(error.stream ? "reconnecting" : "offline", Date.now() + pause);
        await sleep(pause, AbortSignal.any([stopped, this.#waking.signal]));
      }
    }
  }

  /** Reads the log as it happens, until it ends; raises where it breaks. */
  async #stream() {
    Follower.#streams++;
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE);
    const looking = setInterval(() => this.load().catch(() => {}), REFRESH);
    try {
      const signal = AbortSignal.any([this.#stopping.signal, silence.signal]);
      const answer = await this.ask("/events", { signal, headers: { Accept: "text/event-stream", "Last-Event-ID": this.#seq } });
      if (answer.status === 204) return;
      this.#failures = 0;
      this.#connect("live");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", part; !(part = await reader.read()).done;) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
        const blocks = (rest + part.value.replaceAll("\r", "")).split("\n\n");
        rest = blocks.pop();
        blocks.forEach((block) => this.#read(block));
      }
      if (!ENDED.includes(this.job.status)) this.#connect("reconnecting");
    } finally {
      Follower.#streams--;
      clearTimeout(timer);
      clearInterval(looking);
    }
  }

  #read(block) {
    const data = block.split("\n").find((line) => line.startsWith("data:"));
    if (!data) return;
    const { event_type: type, event_seq, payload_json: facts } = JSON.parse(data.slice(5));
    if (event_seq <= this.#seq) return;
    const known = ["progress_percent", "step", "result_id", "result_seq"].filter((name) => facts[name] != null);
    const news = Object.fromEntries(known.map((name) => [name, facts[name]]));
    if (type === "job.partial") Object.assign(news, { status: "partial", partial_count: this.job.partial_count + 1 });
    if (["job.progress", "job.partial"].includes(type)) this.take({ ...this.job, ...news, event_seq });
    else {
      this.#seq = event_seq;
      this.load().catch(() => {}); // what else the event means is in the job itself
    }
  }
}

const template = document.createElement("template");
template.innerHTML = `<div id="box" part="box"><div id="shown">
<div class="line"><span part="chip" class="chip"><svg viewBox="0 0 16 16" aria-hidden="true"><path class="drawn"/><path class="area"/><path class="cut"/></svg><span id="word"></span></span><span id="label" part="label"></span><span id="percent"></span></div>
<progress id="bar" part="bar" max="100"></progress><p id="more"></p><p id="error"></p><slot id="state" name="queued"></slot></div>
<p id="fresh"></p><slot id="lost" name="offline"></slot><p id="alert" role="alert"></p><slot id="fallback"></slot>
<div id="actions" part="actions" class="actions"><button id="cancel" type="button"></button><button id="again" type="button"></button></div>
<p id="status" role="status"></p>
<dialog id="dialog" aria-labelledby="title"><h2 id="title"></h2><p id="text"></p><div class="actions"><button id="keep" type="button" autofocus></button><button id="stop" type="button"></button></div></dialog></div>`;

const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

export class JobProgress extends HTMLElement {
  static observedAttributes = ["src", "token", "prefix", "poll", "lang", "variant", "cancelable", "show", "notify", "title-progress"];
  #follower = null;
  #parts = {};
  #pageTitle = null;
  #quarter = -1;
  #versionSaidAt = 0;
  #asked = false;
  #lost = false;
  #paused = false;
  #ticking = 0;
  #heard = (kind, detail) => this.#news(kind, detail);

  get job() { return this.#follower?.job ?? null; }
  get status() { return this.job?.status ?? null; }
  get progress() { return this.job && this.#percent(); }
  get snapshot() { return this.#follower?.snapshot ?? null; }

  connectedCallback() {
    if (!this.shadowRoot) this.#build();
    this.#follow();
    this.#ticking = setInterval(() => this.#fresh(), 1000);
  }

  disconnectedCallback() {
    clearInterval(this.#ticking);
    this.#leave();
  }

  attributeChangedCallback(name, old, value) {
    if (!this.isConnected || !this.shadowRoot || old === value) return;
    if (["src", "token", "prefix", "poll"].includes(name)) this.#follow();
    else this.#draw();
  }

  /** Asks for the state now, and goes on where it was paused. */
  async refresh() {
    this.#paused = false;
    if (!this.#follower || this.#follower.connection === "refused") return this.#follow();
    this.#follower.wake();
    await this.#follower.load().catch(() => {});
  }

  /** Stops following until `refresh()`; what is shown stays. */
  pause() {
    this.#paused = true;
    this.#follower?.remove(this.#heard);
    this.#tell("connection", { state: "paused" });
    this.#draw();
  }

  /** Asks the server to stop the job; the token must allow it. */
  async cancel(reason) {
    this.#asked = true;
    this.#draw();
    try {
      const body = JSON.stringify(reason ? { reason } : {});
      const headers = { "Content-Type": "application/json" };
      const answer = await this.#follower.ask("/cancel", { method: "POST", headers, body });
      this.#follower.take((await answer.json()).job);
    } catch (error) {
      this.#asked = false;
      put(this.#parts.alert, `${this.#t("notCanceled")} ${error.message}`);
      this.#tell("error", { code: error.code ?? "network", status: error.status ?? 0, message: error.message });
      this.#draw();
      throw error;
    }
  }

  #t(key, values = {}) {
    const code = this.lang || this.closest("[lang]")?.lang || document.documentElement.lang || navigator.language;
    const words = WORDS[code.slice(0, 2).toLowerCase()] ?? WORDS.en;
    return words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  }

  #time(date) {
    return new Date(date).toLocaleTimeString(this.lang || undefined, { timeZoneName: "short" });
  }

  #tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(`job-${kind}`, { detail, bubbles: true, composed: true }));
  }

  #follow() {
    this.#leave();
    if (!this.getAttribute("src")) return;
    const prefix = this.getAttribute("prefix") || "/analyze";
    const api = apiOf(this.getAttribute("src"), prefix);
    this.#paused = this.#asked = false;
    this.#follower = Follower.of(api, this.getAttribute("token") ?? "", Number(this.getAttribute("poll")) || 0);
    this.#follower.add(this.#heard);
    this.#draw();
  }

  #leave() {
    this.#follower?.remove(this.#heard);
    this.#follower = null;
    if (this.#pageTitle !== null) document.title = this.#pageTitle;
    this.#pageTitle = null;
  }

  #build() {
    const p = this.#parts;
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    root.append(template.content.cloneNode(true));
    for (const node of root.querySelectorAll("[id]")) p[node.id] = node;
    p.cancel.onclick = () => p.dialog.showModal();
    p.keep.onclick = () => p.dialog.close();
    p.stop.onclick = () => { p.dialog.close(); this.cancel().catch(() => {}); };
    p.again.onclick = () => this.refresh();
  }

  #news(kind, detail) {
    if (kind) this.#tell(kind, detail);
    if (kind === "done") this.#ended();
    if (kind === "connection") {
      const lost = detail.state === "offline";
      if (lost) put(this.#parts.alert, this.#t("offline", { time: this.#time(this.#follower.at ?? Date.now()) }));
      else if (this.#lost) put(this.#parts.alert, this.#failure());
      this.#lost = lost;
    }
    if (kind === "partial" && Date.now() - this.#versionSaidAt > 15_000) {
      this.#versionSaidAt = Date.now();
      this.#say(this.#t("version", { n: detail.version }));
    }
    this.#draw();
  }

  #ended() {
    const word = this.#t(this.status);
    put(this.#parts.alert, this.#failure());
    if (this.hasAttribute("notify") && globalThis.Notification?.permission === "granted") {
      new Notification(word, { body: this.job.analysis, tag: this.job.job_id });
    }
  }

  /** Why the job failed, where it did. */
  #failure() {
    const { status, error_message: message, error_code: code } = this.job ?? {};
    return status === "failed" ? message ?? code ?? this.#t(status) : "";
  }

  /** Announces milestones: states, every 25 %, and some versions. */
  #say(text) {
    put(this.#parts.status, text);
  }

  /** How far the job is; null while it has not said so. */
  #percent() {
    const { status, progress_percent: percent } = this.job;
    return percent === 0 && ["running", "partial"].includes(status) ? null : percent;
  }

  /** The one word that picks shape and text, as on the pages. */
  #displayState() {
    const { status, phase } = this.job;
    if (phase === "working" || phase === "done" || (status === "queued" && phase === "waiting")) return status;
    return phase in SHAPES ? phase : status;
  }

  #left(seconds) {
    if (seconds < 10) return this.#t("moment");
    if (seconds < 60) return this.#t("seconds", { n: Math.ceil(seconds / 10) * 10 });
    const minutes = Math.ceil(seconds / 60);
    return minutes < 60 ? this.#t("minutes", { n: minutes }) : this.#t("hours", { h: Math.floor(minutes / 60), n: minutes % 60 });
  }

  #extras(state) {
    const { job, snapshot } = this.#follower;
    const shows = (this.getAttribute("show") ?? "eta,versions,queue").split(",");
    const found = [];
    if (state === "backoff" && job.next_attempt_at) found.push(this.#t("at", { time: this.#time(job.next_attempt_at) }));
    if (state === "scheduled" && job.run_at) found.push(this.#t("start", { time: this.#time(job.run_at) }));
    const estimate = state === "queued" ? "queue" : ["running", "partial"].includes(state) && "eta";
    if (estimate && shows.includes(estimate) && job.estimated_seconds != null) {
      found.push(this.#left(Math.max(0, job.estimated_seconds - (Date.now() - this.#follower.at) / 1000)));
    }
    if (snapshot && job.status !== "completed" && shows.includes("versions")) {
      found.push(ENDED.includes(job.status) ? this.#t("kept") : this.#t("version", { n: snapshot.version }));
    }
    return found.join(" · ");
  }

  #draw() {
    const p = this.#parts;
    const { job } = this;
    p.shown.hidden = !job;
    p.fallback.hidden = Boolean(job) && this.#follower.connection !== "refused";
    if (job) this.#drawJob(job);
    p.cancel.hidden = !this.hasAttribute("cancelable") || !job || ENDED.includes(job.status);
    p.cancel.disabled = this.#asked || job?.phase === "canceling";
    for (const name of ["cancel", "again", "title", "text", "keep", "stop"]) put(p[name], this.#t(name));
    if (p.cancel.hidden && p.dialog.open) p.dialog.close();
    this.#fresh();
  }

  #drawJob(job) {
    const p = this.#parts;
    const [state, percent] = [this.#displayState(), this.#percent()];
    if (p.word.textContent !== this.#t(state)) this.#say(this.#t(state));
    put(p.word, this.#t(state));
    this.shadowRoot.querySelectorAll("path").forEach((path, n) => path.setAttribute("d", SHAPES[state][n] ?? ""));
    put(p.label, (!ENDED.includes(job.status) && job.step) || "");
    put(p.percent, percent === null ? "" : `${percent} %`);
    p.bar.setAttribute("aria-label", `${this.#t("progress")}: ${job.analysis}`);
    if (percent === null) p.bar.removeAttribute("value");
    else p.bar.value = percent;
    put(p.more, this.#extras(state));
    const reason = job.cancel_reason === "too_late" ? this.#t("tooLate") : job.cancel_reason;
    put(p.error, (job.status === "canceled" && reason) || "");
    p.state.name = job.status;
    p.box.className = job.status;
    const quarter = Math.floor((percent ?? 0) / 25);
    if (quarter > this.#quarter && percent && !ENDED.includes(job.status)) this.#say(`${percent} %`);
    this.#quarter = quarter;
    if (this.hasAttribute("title-progress")) {
      this.#pageTitle ??= document.title;
      document.title = `${ENDED.includes(job.status) || percent === null ? this.#t(state) : `${percent} %`} · ${this.#pageTitle}`;
    }
  }

  /** How fresh what is shown is; nothing is said while it is live. */
  #fresh() {
    const p = this.#parts;
    const follower = this.#follower;
    const connection = this.#paused ? "paused" : follower?.connection ?? "connecting";
    const stale = !["live", "polling", "ended"].includes(connection);
    const words = [];
    if (connection === "offline") {
      // Said once as an alert; here is what changes.
      words.push(this.#t("next", { n: Math.max(0, Math.ceil((follower.nextAt - Date.now()) / 1000)) }));
    } else if (!["live", "ended"].includes(connection)) {
      words.push(this.#t(connection));
    }
    put(p.fresh, words.join(" "));
    p.lost.hidden = connection !== "offline";
    p.again.hidden = !["offline", "paused"].includes(connection);
    p.box.classList.toggle("stale", Boolean(this.job) && stale);
    p.actions.hidden = p.cancel.hidden && p.again.hidden;
  }
}

if (!customElements.get("job-progress")) customElements.define("job-progress", JobProgress);
