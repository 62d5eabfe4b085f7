// Sends the forms that act on jobs without leaving the page: offline it says so, and nothing on the page is lost.

const LOOK = "langlauf:look";
const SECONDS = 30_000;

function tell(form, text) {
  let note = form.querySelector(".not-sent");
  if (!note) {
    note = document.createElement("p");
    note.className = "not-sent";
    note.setAttribute("role", "alert");
    form.append(note);
  }
  note.textContent = text;
}

function valuesOf(form, button) {
  const values = new URLSearchParams(new FormData(form));
  if (button?.name) values.append(button.name, button.value);
  return values;
}

// The page itself, newer, or the page that the answer leads to.
function follow(form, url) {
  const here = url.origin === location.origin && url.pathname === location.pathname;
  const event = new Event(LOOK, { cancelable: true });
  if (here && !document.dispatchEvent(event)) form.closest("dialog")?.close();
  else location.assign(url);
}

async function send(event) {
  const form = event.target;
  if (event.defaultPrevented || !form.matches("form[data-send]")) return;
  event.preventDefault();
  const button = event.submitter;
  const values = valuesOf(form, button);
  tell(form, "");
  try {
    const signal = AbortSignal.timeout(SECONDS);
    const answer = await fetch(form.action, { method: "POST", body: values, headers: { Accept: "text/html" }, signal });
    // What is refused is explained on a page of its own, which the browser asks for itself.
    if (answer.redirected) follow(form, new URL(answer.url));
    else HTMLFormElement.prototype.submit.call(form);
  } catch {
    tell(form, form.dataset.send);
  } finally {
    if (button) setTimeout(() => (button.disabled = false));
  }
}

document.addEventListener("submit", send);
