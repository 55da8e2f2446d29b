// Rating: five views of a mask, one score; the last scores may be changed until the round is handed in.
import { imageFile, nonce, pointer, post, words } from "./server.js";
import { complain, counted, filled, loading, pause, reserved, roundDone, show as section } from "./rounds.js";

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
let held = null;
let lost = false;
addEventListener("blur", () => { lost = true; });
document.addEventListener("visibilitychange", () => { if (document.hidden) lost = true; });

// A mask cannot be rated before it is shown, nor two with one press.
function wait(value) {
  const focused = buttons.includes(document.activeElement) ? document.activeElement : held;
  held = value ? focused : null;  // a button that is switched off loses the focus
  busy = value;
  for (const button of buttons) button.disabled = value;
  byId("undo").disabled = value || at === 0;
  byId("views").setAttribute("aria-busy", String(value));
  if (!value) focused?.focus();
}

// The views of a trial as addresses of files that are here already.
async function loaded(trial) {
  trial.views ??= Promise.all(views.map(async (button) => URL.createObjectURL(await imageFile(trial.id, button.dataset.view))));
  return trial.views;
}

async function show(number) {
  at = number;
  if (at >= trials.length) return section("hand-in");
  section("stage");
  wait(true);
  const trial = trials[at];
  counted(at, trials.length);
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.score) === trial.score));
  const files = await loaded(trial);
  views.forEach((button, number) => { button.firstElementChild.src = files[number]; });
  await Promise.all(views.map((button) => button.firstElementChild.decode()));
  since = performance.now();
  lost = false;
  wait(false);
  if (at + 1 < trials.length) loaded(trials[at + 1]).catch(() => {});  // said when it is shown
}

async function score(value, event) {
  if (busy || byId("stage").hidden || at >= trials.length) return;
  wait(true);
  const trial = trials[at];
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.score) === value));
  try {
    const kept = await post(`/api/trials/${trial.id}`, {
      nonce: nonce(), score: value, seconds: (performance.now() - since) / 1000, pointer: pointer(event), focus_lost: lost,
    });
    trial.score = value;
    if (kept.right !== undefined) await compared(kept);
    if (full.open) full.close();
    loupe.hidden = true;
    await show(at + 1);
  } catch (error) {
    complain(error);
  }
}

// After a practice mask: the scores that experienced raters give.
async function compared(kept) {
  const place = byId("feedback");
  place.textContent = `${kept.right ? `${words.feedback_right}. ` : ""}${filled(words.feedback_range, kept)}`;
  place.className = `feedback ${kept.right ? "right" : "wrong"}`;
  place.hidden = false;
  await pause(kept.right ? 1500 : 3000);
  place.hidden = true;
}

function enlarge(number) {
  open = (number + views.length) % views.length;
  const image = full.querySelector("img");
  const { alt, className, src } = views[open].firstElementChild;
  Object.assign(image, { alt, className, src });
  byId("name").textContent = alt;
  if (!full.open) full.showModal();
}

for (const button of buttons) button.addEventListener("click", (event) => score(Number(button.dataset.score), event));
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
byId("close").addEventListener("click", () => full.close());
byId("undo").addEventListener("click", () => show(at - 1).catch(complain));
byId("back").addEventListener("click", () => show(trials.length - 1).catch(complain));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (/^[0-9]$/.test(event.key)) score(event.key === "0" ? 10 : Number(event.key), event);
  else if (event.key === "ArrowLeft" && full.open) enlarge(open - 1);
  else if (event.key === "ArrowRight" && full.open) enlarge(open + 1);
  else if (event.key === "Backspace" && at > 0 && !busy && !full.open && !byId("stage").hidden) show(at - 1).catch(complain);
});

try {
  const batch = await reserved();
  if (batch !== null) {
    trials = batch.trials;
    const first = Math.max(0, trials.findIndex((trial) => trial.score === null));
    await loading(() => loaded(trials[first]));
    byId("finish").addEventListener("click", async () => {
      try {
        roundDone(await post(`/api/batches/${batch.batch}/finish`));
      } catch (error) {
        complain(error);
      }
    });
    await show(trials.every((t) => t.score !== null) ? trials.length : first);
  }
} catch (error) {
  complain(error);
}
