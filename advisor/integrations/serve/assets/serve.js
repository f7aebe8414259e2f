"use strict";
// Keeps the part that changes fresh, and sends a photograph. Answers of this server are pages with escaped values.
const EVERY_MS = 2000;
const byId = (id, root = document) => root.getElementById(id);

async function refresh() {
  const live = byId("live");
  if (!live || !("live" in live.dataset)) return;
  try {
    if (!document.hidden) {
      const answer = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = byId("live", page);
      byId("lost").hidden = true;
      if (found?.dataset.state !== live.dataset.state) return location.reload();
      if (found && found.innerHTML !== live.innerHTML) {
        const at = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        live.replaceChildren(...found.childNodes);
        if (at) live.querySelector(`a[href="${CSS.escape(at)}"]`)?.focus();
      }
      if (!("live" in found.dataset)) return;
    }
  } catch {
    byId("lost").hidden = false;
  }
  setTimeout(refresh, EVERY_MS);
}

async function send(drop, file) {
  const answers = byId("answers"), shown = byId("shown");
  URL.revokeObjectURL(shown.src);
  shown.src = URL.createObjectURL(file);
  shown.hidden = false;
  if (file.size > Number(drop.dataset.most)) {
    answers.textContent = `The file is larger than ${Math.round(drop.dataset.most / 1e6)}\u00a0MB: give a smaller one.`;
    return;
  }
  answers.textContent = "Asking the files …";
  try {
    const answer = await fetch(drop.dataset.send, { method: "POST", body: file });
    answers.innerHTML = await answer.text();
    const drawn = answers.querySelectorAll("img:not(.layer)");
    for (const image of drawn) image.src = shown.src;
    shown.hidden = drawn.length > 0;
  } catch {
    answers.textContent = "The server does not answer. Start it again: advisor serve";
  }
}

function listen(drop) {
  const input = byId("photograph");
  input.addEventListener("change", () => input.files.length && send(drop, input.files[0]));
  for (const name of ["dragenter", "dragover"])
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) send(drop, event.dataTransfer.files[0]);
  });
}

if (byId("drop")) listen(byId("drop"));
setTimeout(refresh, EVERY_MS);
