// Rounds: load a batch, let the person start, play its trials, say thank you.
import { image, post, Refusal, words } from "./server.js";

const byId = (id) => document.getElementById(id);
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export function counted(done, count) {
  byId("count").textContent = filled(words.progress, { done: Math.min(done + 1, count), count });
  byId("bar").style.width = `${(100 * done) / count}%`;
}

// One section at a time; its heading takes the focus, so that it is read out.
export function show(id) {
  for (const name of ["intro", "stage", "hand-in", "after"]) {
    const section = byId(name);
    if (section) section.hidden = name !== id;
  }
  byId(id).querySelector("h1[tabindex]")?.focus();
  scrollTo(0, 0);
}

// What is over, and what its button says; without a label there is nothing more to do.
export function after(title, text, label = "") {
  byId("after-title").textContent = title;
  byId("after-text").textContent = text;
  byId("again").textContent = label;
  byId("again").hidden = !label;
  show("after");
}

// Every image of the batch is decoded before the start: nothing loads while screens run.
async function load(batch) {
  const trials = batch.trials.filter((trial) => !trial.answered);
  const wanted = trials.flatMap((trial) => trial.screens.filter((screen) => screen.image));
  let ready = 0;
  for (const trial of trials) {
    const known = new Map();
    for (const screen of trial.screens) {
      if (!screen.image) continue;
      if (!known.has(screen.image)) known.set(screen.image, await image(trial.id, screen.image));
      screen.bitmap = known.get(screen.image);
      ready += 1;
      byId("loaded").value = ready / wanted.length;
    }
  }
  byId("loaded").value = 1;
  return trials;
}

// Refusals in the person's language: what the server says is for those who run the study.
const COMPLAINTS = { 401: "stale", 403: "stale", 404: "over", 409: "over", 410: "over", 423: "paused" };

export function complain(error) {
  if (!(error instanceof Refusal)) throw error;
  const name = COMPLAINTS[error.status] ?? "fault";
  if (name === "fault") console.error(error.status, error.message);
  after(words[name], words[`${name}_text`], name === "over" ? words.go_on : words.try_again);
}

export async function run(trial_) {
  byId("again").addEventListener("click", () => location.reload());
  try {
    const batch = await post("/api/batch");
    if (batch === null) return after(words.all_done, words.all_done_text);
    const count = batch.trials.length;
    const trials = await load(batch);
    byId("loading").textContent = "";
    const start = byId("start");
    start.disabled = false;
    start.focus();
    await new Promise((done) => start.addEventListener("click", done, { once: true }));
    show("stage");
    for (const [k, trial] of trials.entries()) {
      counted(count - trials.length + k, count);
      await trial_(trial);
      for (const screen of trial.screens) screen.bitmap = null;
    }
    byId("bar").style.width = "100%";
    after(words.round_done, words.round_done_text, words.go_on);
  } catch (error) {
    complain(error);
  }
}
