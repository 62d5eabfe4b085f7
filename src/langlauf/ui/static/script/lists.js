// What a script adds to the list of jobs: how many are chosen, all of a page at once, and that new ones came. Rows never move
// under a reader: new ones wait behind a link.

const CHANGED = "langlauf:changed";
const form = document.getElementById("chosen");
const boxes = [...document.querySelectorAll("input[form=chosen][name=job]")];
const note = document.getElementById("fresh-note");
const known = new Set([...document.querySelectorAll("tr[data-job]")].map((row) => row.dataset.job));

if (form) {
  const all = form.querySelector(".all");
  const every = all.querySelector("input");
  const words = form.querySelector(".how-many");
  const matching = form.querySelector("[name=all]");
  const count = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    const everything = matching?.checked ?? false;
    const some = everything ? matching.parentElement.textContent.trim() : form.dataset.some.replace("{count}", chosen);
    words.textContent = chosen || everything ? some : form.dataset.none;
    for (const button of form.querySelectorAll("button")) button.disabled = chosen === 0 && !everything;
    every.checked = chosen === boxes.length;
    every.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  words.setAttribute("role", "status");
  all.hidden = false;
  every.addEventListener("change", () => {
    for (const box of boxes) box.checked = every.checked;
    count();
  });
  for (const box of [...boxes, ...(matching ? [matching] : [])]) box.addEventListener("change", count);
  form.addEventListener("submit", () => keepPlace());
  // A browser that comes back to the page remembers what was chosen, but only after this ran.
  addEventListener("pageshow", count);
  count();
}

// After an action on many jobs the list is where it was, and its outcome has the focus.
const PLACE = "langlauf.list";

function keepPlace() {
  try {
    sessionStorage.setItem(PLACE, String(scrollY));
  } catch {
    // Storage may be forbidden; then the list begins at its top.
  }
}

const outcome = document.getElementById("bulk-outcome");
if (outcome) {
  outcome.focus({ preventScroll: true });
  try {
    scrollTo({ top: Number(sessionStorage.getItem(PLACE) ?? 0), behavior: "instant" });
  } catch {
    // It was said above.
  }
}

function look() {
  const ids = document.getElementById("fresh").dataset.ids.split(" ").filter(Boolean);
  const fresh = ids.filter((id) => !known.has(id)).length;
  note.hidden = fresh === 0;
  const words = fresh === 1 ? note.dataset.one : note.dataset.many.replace("{count}", fresh);
  if (fresh) note.querySelector("a").textContent = words;
}

document.addEventListener(CHANGED, look);
