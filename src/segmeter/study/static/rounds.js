// Rounds: reserve a batch when the participant starts, load it, run its trials, say thank you.
import { bitmap, leave, post, Refusal, words } from "./server.js";

const byId = (id) => document.getElementById(id);
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const SLOW_MS = 4000;
const RETRY_MS = 15000;

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

// What is over, what its button says, and whether the study can be finished now.
export function after(title, text, { again = "", end = false } = {}) {
  byId("after-title").textContent = title;
  byId("after-text").textContent = text;
  byId("again").textContent = again;
  byId("again").hidden = !again;
  byId("end").hidden = !end;
  byId("end").className = again ? "quiet" : "main";
  show("after");
}

// What follows a finished round: `next` is work, full, done, screened_out.
export function roundDone({ passed, next }) {
  if (next === "screened_out") return after(words.screened_out, words.screened_out_text, { again: words.go_on_practice });
  if (passed === true) return after(words.training_passed, words.training_passed_text, { again: words.go_on_practice });
  if (passed === false) return after(words.training_failed, words.training_failed_text, { again: words.try_again });
  const more = next === "work";
  return after(words.round_done, more ? words.round_done_text : words.round_last_text, { again: more ? words.go_on : "", end: true });
}

export async function feedback(kept, place) {
  if (kept.right === undefined) return;
  place.textContent = kept.right ? words.feedback_right : words.feedback_wrong;
  place.classList.toggle("right", kept.right);
  place.classList.toggle("wrong", !kept.right);
  await pause(1200);
  place.classList.remove("right", "wrong");
}

// Refusals in the participant's language: the server's own words are for the conductor.
const COMPLAINTS = { 401: "stale", 403: "stale", 404: "over", 409: "elsewhere", 410: "over", 423: "paused" };

export function complain(error) {
  if (!(error instanceof Refusal)) throw error;
  const name = COMPLAINTS[error.status] ?? "fault";
  if (name === "fault") console.error(error.status, error.message);
  after(words[name], words[`${name}_text`], { again: name === "over" ? words.go_on : words.try_again });
}

// Waits until there is something to do, then until Start is pressed; returns a reserved batch.
export async function reserved() {
  byId("again").addEventListener("click", () => location.reload());
  byId("end").addEventListener("click", async () => {
    try {
      await post("/api/end");
      location.assign(`${document.body.dataset.base}/end`);
    } catch (error) {
      complain(error);
    }
  });
  for (;;) {
    const offer = await offered();
    if (offer.state === "done") {
      after(words.all_done, words.all_done_text, { end: true });
      return null;
    }
    byId("practice").hidden = !offer.training;
    const start = byId("start");
    start.disabled = false;
    start.focus();
    await new Promise((done) => start.addEventListener("click", done, { once: true }));
    start.disabled = true;
    const batch = await post("/api/batch");
    if (batch === null) continue;
    addEventListener("pagehide", () => leave(batch.batch));
    return batch;
  }
}

// What the server offers; while others hold all places, it is asked again.
async function offered() {
  for (;;) {
    const offer = await post("/api/offer");
    if (offer.state !== "full") {
      show("intro");
      return offer;
    }
    after(words.full, words.full_text);
    await pause(RETRY_MS);
  }
}

// Shows how far loading is; a participant who had to wait long says when to begin.
export async function loading(load) {
  const began = performance.now();
  byId("loaded").hidden = byId("loading").hidden = false;
  const loaded = await load((share) => { byId("loaded").value = share; });
  if (performance.now() - began > SLOW_MS) {
    const start = byId("start");
    start.textContent = words.ready;
    start.disabled = false;
    start.focus();
    await new Promise((done) => start.addEventListener("click", done, { once: true }));
  }
  return loaded;
}

// Every image of the batch is decoded before the start: nothing loads while screens run.
async function load(batch, progress) {
  const trials = batch.trials.filter((trial) => !trial.answered);
  const wanted = trials.flatMap((trial) => trial.screens.filter((screen) => screen.image));
  let ready = 0;
  for (const trial of trials) {
    const known = new Map();
    for (const screen of trial.screens) {
      if (!screen.image) continue;
      if (!known.has(screen.image)) known.set(screen.image, await bitmap(trial.id, screen.image));
      screen.bitmap = known.get(screen.image);
      ready += 1;
      progress(ready / wanted.length);
    }
  }
  return trials;
}

export async function run(trial_) {
  try {
    const batch = await reserved();
    if (batch === null) return;
    const count = batch.trials.length;
    const trials = await loading((progress) => load(batch, progress));
    show("stage");
    let last = {};
    for (const [k, trial] of trials.entries()) {
      counted(count - trials.length + k, count);
      last = await trial_(trial);
      for (const screen of trial.screens) screen.bitmap = null;
    }
    byId("bar").style.width = "100%";
    roundDone(last);
  } catch (error) {
    complain(error);
  }
}
