// The script of the back office. Everything but copying, recording and live states works without it.
"use strict";

document.documentElement.classList.add("script");

/** Copies the text of the element that `data-copy` names, and selects it: browsers have no clipboard for pages
 * of plain HTTP, and where the older command fails too, a person copies what is selected. */
async function copy(button) {
  const shown = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(shown);
  const copied = navigator.clipboard
    ? await navigator.clipboard.writeText(shown.textContent.trim()).then(() => true, () => false)
    : document.execCommand("copy");
  const before = button.dataset.before ??= button.textContent;
  button.textContent = copied ? button.dataset.done : button.dataset.selected;
  setTimeout(() => { button.textContent = before; }, copied ? 1500 : 8000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

// A form that changes something is sent once, and its button is busy meanwhile. One that takes a while says so.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.dataset.stream) return; // try.js sends those
  if (form.hasAttribute("aria-busy")) { event.preventDefault(); return; }
  form.setAttribute("aria-busy", "true");
  const button = event.submitter ?? form.querySelector("button.main, button");
  // Afterwards: the form is sent without the value of a button that is disabled now.
  setTimeout(() => {
    button.disabled = true;
    if (form.dataset.busy) button.textContent = form.dataset.busy;
  });
});

// A page that the browser kept has forms that were sent: what they carry is used.
addEventListener("pageshow", (event) => {
  if (event.persisted && document.querySelector("form[aria-busy]")) location.reload();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "/" && !typing) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
  if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details[open]")) open.open = false;
    if (typing) event.target.blur();
  }
});

/** Plays the sound that a link `[data-play]` leads to, and stops the one before. */
const player = new Audio();
let playing = null;
function play(link) {
  const same = link === playing;
  playing?.classList.remove("playing");
  player.pause();
  playing = same ? null : link;
  if (same) return;
  link.classList.add("playing");
  player.src = link.href;
  // Without a sound at the address, its page says why.
  player.play().catch((error) => { if (error.name === "NotSupportedError") location.href = link.href; });
}
player.addEventListener("ended", () => { playing?.classList.remove("playing"); playing = null; });

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-play]");
  if (link) { event.preventDefault(); play(link); }
});

/** On a phone the rows of a table are cards: each cell says its column. The roles stay those of a table. */
function label(tables) {
  for (const table of tables) {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (!names.length) continue;
    table.classList.add("cards");
    table.setAttribute("role", "table");
    for (const head of table.querySelectorAll("thead th")) head.setAttribute("role", "columnheader");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, at) => {
        if (cell.tagName !== "TD") return;
        cell.setAttribute("role", "cell");
        cell.dataset.label = names[at];
      });
    }
  }
}

label(document.querySelectorAll(".table table"));

/** Keeps `[data-live]` up to date: the server sends the element's new content as HTML of its own. */
class Live {
  constructor(element) {
    this.element = element;
    document.addEventListener("visibilitychange", () => this.follow());
    this.follow();
  }

  follow() {
    if (document.hidden) { this.source?.close(); this.source = null; return; }
    if (this.source || this.ended) return;
    this.source = new EventSource(this.element.dataset.live);
    this.source.addEventListener("content", (event) => {
      this.element.innerHTML = JSON.parse(event.data);
      label(this.element.querySelectorAll(".table table"));
    });
    this.source.addEventListener("end", () => { this.ended = true; this.source.close(); });
  }
}

for (const element of document.querySelectorAll("[data-live]")) new Live(element);

for (const select of document.querySelectorAll(".filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

/** While a sound plays, the word of `[data-spoken-by]` that is being said is lit. */
for (const text of document.querySelectorAll("[data-spoken-by]")) {
  const sound = document.getElementById(text.dataset.spokenBy);
  const words = [...text.querySelectorAll("[data-begin]")];
  const light = () => {
    const said = sound.ended ? null : words.findLast((word) => word.dataset.begin <= sound.currentTime);
    for (const word of words) word.classList.toggle("lit", word === said);
    if (!sound.paused) requestAnimationFrame(light);
  };
  for (const event of ["play", "seeked", "ended"]) sound.addEventListener(event, light);
}
