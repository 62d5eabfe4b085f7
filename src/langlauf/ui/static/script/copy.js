// A button that copies the address of the page. It is there only where it works.

function ready(button) {
  if (button.classList.contains("ready") || !navigator.clipboard) return;
  const words = button.textContent;
  button.classList.add("ready");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    button.textContent = button.dataset.done;
    setTimeout(() => { button.textContent = words; }, 2000);
  });
}

function readyAll() {
  for (const button of document.querySelectorAll("[data-copy]")) ready(button);
}

document.addEventListener("langlauf:changed", readyAll);
readyAll();
