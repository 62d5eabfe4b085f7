// Comfort for forms made from schemas: texts out of files, and one submission for two clicks.

/** Puts a file's text into a field, or says why not. */
async function fill(field, file, told) {
  const say = (text) => { told.textContent = text; };
  if (file.size > Number(field.dataset.largest)) return say(field.dataset.large);
  try {
    field.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return say(field.dataset.binary);
  }
  field.dispatchEvent(new Event("input", { bubbles: true }));
  say(file.name);
}

function offerFile(field) {
  const row = document.createElement("div");
  const button = document.createElement("button");
  const told = document.createElement("span");
  const chooser = document.createElement("input");
  row.className = "from-file";
  button.type = "button";
  button.className = "second";
  button.textContent = field.dataset.file;
  button.setAttribute("aria-controls", field.id);
  told.setAttribute("role", "status");
  chooser.type = "file";
  chooser.hidden = true;
  chooser.tabIndex = -1;
  button.addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => {
    if (chooser.files[0]) fill(field, chooser.files[0], told);
    chooser.value = "";
  });
  field.addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    field.classList.add("dropping");
  });
  field.addEventListener("dragleave", () => field.classList.remove("dropping"));
  field.addEventListener("drop", (event) => {
    field.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    fill(field, file, told);
  });
  row.append(button, chooser, told);
  field.after(row);
}

function sentOnce(event) {
  const form = event.target;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
}

document.querySelectorAll("textarea[data-file]").forEach(offerFile);
for (const form of document.querySelectorAll("form.start")) form.addEventListener("submit", sentOnce);
// A page that comes back out of the browser's memory can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
