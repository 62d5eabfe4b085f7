// Sends an action on many jobs in batches: it shows how far it is, goes on after a lost connection, and ends with a summary.

const BATCH = 50;
const SECONDS = 60_000;

function show(form) {
  const progress = document.createElement("progress");
  const words = document.createElement("p");
  words.setAttribute("role", "status");
  progress.setAttribute("aria-label", form.querySelector("[type=submit]").textContent);
  form.append(progress, words);
  return { progress, words };
}

async function sendBatch(form, jobs) {
  const values = new URLSearchParams(new FormData(form));
  values.set("jobs", jobs.join(" "));
  const signal = AbortSignal.timeout(SECONDS);
  const answer = await fetch(form.action, { method: "POST", body: values, headers: { Accept: "text/html" }, signal });
  if (!answer.redirected) throw new Error("refused");
  return new URL(answer.url);
}

function sum(url, totals) {
  for (const name of ["canceled", "repeated", "left"]) {
    if (url.searchParams.has(name)) totals[name] = (totals[name] ?? 0) + Number(url.searchParams.get(name));
  }
}

async function run(event) {
  const form = event.target;
  if (!form.matches("form[data-bulk]")) return;
  event.preventDefault();
  const button = event.submitter;
  const field = form.elements.jobs;
  const left = field.value.split(" ");
  const state = (form.state ??= { ...show(form), total: left.length, totals: {} });
  const { progress, words, total, totals } = state;
  button.disabled = true;
  let last;
  try {
    while (left.length) {
      progress.max = total;
      progress.value = total - left.length;
      words.textContent = form.dataset.bulk.replace("{done}", total - left.length).replace("{total}", total);
      last = await sendBatch(form, left.slice(0, BATCH));
      left.splice(0, BATCH);
      field.value = left.join(" ");
      sum(last, totals);
    }
  } catch {
    words.textContent += ` ${form.dataset.unsent}`;
    button.disabled = false;
    return;
  }
  for (const [name, count] of Object.entries(totals)) last.searchParams.set(name, count);
  location.assign(last);
}

document.addEventListener("submit", run);
