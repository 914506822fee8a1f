// The page Try: streams the answer of a chat. Without this script the answer is not streamed.
"use strict";

/** The JSON objects of a stream of events. */
async function* objects(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (rest + part.value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice("data:".length)).join("\n").trim();
      if (data.startsWith("{")) yield JSON.parse(data);
    }
  }
}

/** Replaces the content of this page by that of a fetched page. */
async function show(response) {
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const content = page.querySelector("#content");
  if (response.redirected || !content) location.assign(response.url); // the session has ended
  else document.getElementById("content").replaceWith(content);
  document.getElementById("text")?.focus();
}

/** Adds the message of the form and an empty answer to the conversation. Returns the element of the answer. */
function begin(form) {
  const turns = document.querySelector(".turns");
  turns.append(document.getElementById("turn").content.cloneNode(true));
  const [asked, answer] = [...turns.querySelectorAll(".said")].slice(-2);
  asked.textContent = form.elements.text.value;
  answer.previousElementSibling.textContent = form.elements.model.value;
  turns.hidden = false;
  document.getElementById("outcome")?.remove();
  return answer;
}

/** Sends the message, shows the streamed answer, and then replaces the content by the page with its cost. */
async function send(form, stop) {
  const fields = new URLSearchParams(new FormData(form));
  const said = begin(form);
  const began = performance.now();
  const passed = () => Math.max(1, Math.round(performance.now() - began));
  let answer = "";
  try {
    const response = await fetch(form.dataset.stream, { method: "POST", body: fields, signal: stop.signal });
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return show(response);
    fields.set("call", response.headers.get("X-Myna-Call"));
    for await (const { choices, error } of objects(response.body)) {
      if (error) fields.set("error", error.message);
      const text = choices?.[0]?.delta?.content;
      if (typeof text !== "string" || !text) continue;
      if (!answer) fields.set("first_ms", passed());
      answer += text;
      said.append(text);
    }
  } catch {
    if (stop.signal.aborted) fields.set("stopped", "true");
    else if (!fields.has("error")) fields.set("error", form.dataset.broken); // a browser may drop the last event
  }
  fields.set("answer", answer);
  fields.set("waited_ms", passed());
  const page = await fetch(form.dataset.ended, { method: "POST", body: fields });
  if (!page.ok && !page.redirected) throw new Error(page.status); // the answer would be lost with this page
  return show(page);
}

/** Whether an answer is being written: the message can't be changed then, and the button stops it. */
function setBusy(form, busy) {
  document.querySelector(".turns").ariaBusy = String(busy);
  form.elements.text.readOnly = busy;
  form.querySelector("button.main").hidden = busy;
  form.querySelector("[data-stop]").hidden = !busy;
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-stream]");
  if (!form) return;
  event.preventDefault();
  if (form.elements.text.readOnly) return;
  const stop = new AbortController();
  form.querySelector("[data-stop]").onclick = () => stop.abort();
  const { value } = form.elements.text;
  setBusy(form, true);
  try {
    const sent = send(form, stop);
    form.elements.text.value = "";
    await sent;
  } catch {
    setBusy(form, false);
    form.elements.text.value = value;
    const lost = document.getElementById("lost");
    lost.textContent = form.dataset.lost;
    lost.hidden = false;
  }
});
