// Comfort for forms made from schemas: texts out of files, further rows, and one submission for two clicks.

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

/** Adds an empty row to a list of records; without a script the server does it. */
function addRow(button) {
  const list = document.getElementById(button.value);
  const number = list.children.length;
  const row = list.lastElementChild.cloneNode(true);
  const renamed = (text) => text.replace(`${button.value}.${number - 1}.`, `${button.value}.${number}.`);
  for (const part of row.querySelectorAll("[id], [for], [name], [list]")) {
    for (const name of ["id", "for", "name", "list"]) {
      if (part.hasAttribute(name)) part.setAttribute(name, renamed(part.getAttribute(name)));
    }
    for (const name of ["aria-invalid", "aria-describedby"]) part.removeAttribute(name);
    if (part.type === "checkbox") part.checked = false;
    else if (part.tagName === "INPUT") part.value = "";
  }
  row.querySelectorAll(".error").forEach((error) => error.remove());
  row.querySelectorAll(".wrong").forEach((cell) => cell.classList.remove("wrong"));
  const legend = row.querySelector("legend");
  legend.textContent = legend.textContent.replace(/\d+/, number + 1);
  list.append(row);
  row.querySelector("input, select").focus();
}

function sentOnce(event) {
  const form = event.target;
  if (event.submitter?.name === "rows") {
    event.preventDefault();
    return addRow(event.submitter);
  }
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
}

document.querySelectorAll("textarea[data-file]").forEach(offerFile);
for (const form of document.querySelectorAll("form.start")) form.addEventListener("submit", sentOnce);
// A page that comes back out of the browser's memory can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
