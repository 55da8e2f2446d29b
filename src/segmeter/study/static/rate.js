// Rating: five views of a mask, one score; the last scores may be changed until the round is handed in.
import { addressOf, nonce, post, words } from "./server.js";
import { after, complain, filled } from "./rounds.js";

const byId = (id) => document.getElementById(id);
const views = [...document.querySelectorAll("[data-view]")];
const buttons = [...document.querySelectorAll("[data-score]")];
const full = byId("full");
const loupe = byId("loupe");
let trials = [];
let at = 0;
let since = 0;
let busy = false;
let open = 0;

// Nobody rates a mask that is not there yet, nor two with one press.
function wait(value) {
  busy = value;
  for (const button of buttons) button.disabled = value;
}

function section(id) {
  for (const name of ["intro", "stage", "hand-in", "after"]) byId(name).hidden = name !== id;
}

const address = (trial, button) => addressOf(trial.id, button.dataset.view);

function ahead(trial) {
  return Promise.all(views.map((button) => new Promise((done) => {
    const image = new Image();
    image.onload = image.onerror = done;
    image.src = address(trial, button);
  })));
}

async function show(number) {
  at = number;
  if (at >= trials.length) return section("hand-in");
  section("stage");
  wait(true);
  const trial = trials[at];
  byId("count").textContent = filled(words.progress, { done: at + 1, count: trials.length });
  byId("undo").disabled = at === 0;
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.score) === trial.score));
  for (const button of views) button.firstElementChild.src = address(trial, button);
  await Promise.all(views.map((button) => button.firstElementChild.decode().catch(() => {})));
  since = performance.now();
  wait(false);
  if (at + 1 < trials.length) ahead(trials[at + 1]);
}

async function score(value) {
  if (busy || byId("stage").hidden || at >= trials.length) return;
  wait(true);
  const trial = trials[at];
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.score) === value));
  try {
    await post(`/api/trials/${trial.id}`, { nonce: nonce(), score: value, seconds: (performance.now() - since) / 1000 });
    trial.score = value;
    if (full.open) full.close();
    loupe.hidden = true;
    await show(at + 1);
  } catch (error) {
    complain(error);
  }
}

function enlarge(number) {
  open = (number + views.length) % views.length;
  const image = full.querySelector("img");
  image.src = address(trials[at], views[open]);
  image.className = views[open].firstElementChild.className;
  byId("name").textContent = views[open].firstElementChild.alt;
  if (!full.open) full.showModal();
}

for (const button of buttons) button.addEventListener("click", () => score(Number(button.dataset.score)));
views.forEach((button, number) => {
  button.addEventListener("click", () => enlarge(number));
  button.addEventListener("pointerenter", (event) => {
    if (event.pointerType !== "mouse") return;
    loupe.firstElementChild.src = button.firstElementChild.src;
    loupe.firstElementChild.className = button.firstElementChild.className;
    const box = button.getBoundingClientRect();
    loupe.hidden = false;
    const size = loupe.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left - size.width - 12, innerWidth - size.width - 8));
    loupe.style.left = `${box.left > innerWidth / 2 ? left : Math.min(box.right + 12, innerWidth - size.width - 8)}px`;
    loupe.style.top = `${Math.max(8, Math.min(box.top, innerHeight - size.height - 8))}px`;
  });
  button.addEventListener("pointerleave", () => { loupe.hidden = true; });
});
full.querySelector("img").addEventListener("click", () => full.close());
byId("before").addEventListener("click", () => enlarge(open - 1));
byId("next").addEventListener("click", () => enlarge(open + 1));
byId("undo").addEventListener("click", () => show(at - 1));
byId("back").addEventListener("click", () => show(trials.length - 1));
byId("again").addEventListener("click", () => location.reload());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (/^[0-9]$/.test(event.key)) score(event.key === "0" ? 10 : Number(event.key));
  else if (event.key === "ArrowLeft" && full.open) enlarge(open - 1);
  else if (event.key === "ArrowRight" && full.open) enlarge(open + 1);
  else if (event.key === "Backspace" && at > 0 && !byId("stage").hidden) show(at - 1);
});

try {
  const batch = await post("/api/batch");
  if (batch === null) {
    after(words.all_done, words.all_done_text, false);
  } else {
    trials = batch.trials;
    byId("practice").hidden = !batch.training;
    const first = Math.max(0, trials.findIndex((trial) => trial.score === null));
    await ahead(trials[first]);
    byId("loaded").value = 1;
    byId("loading").textContent = "";
    byId("start").disabled = false;
    byId("start").addEventListener("click", () => show(trials.every((t) => t.score !== null) ? trials.length : first));
    byId("finish").addEventListener("click", async () => {
      try {
        const { passed } = await post(`/api/batches/${batch.batch}/finish`);
        section("after");
        if (passed === null) after(words.round_done, words.round_done_text, true);
        else after(passed ? words.training_passed : words.training_failed, "", true);
      } catch (error) {
        complain(error);
      }
    });
  }
} catch (error) {
  complain(error);
}
