// Segmenting with a model in the loop: click, see the mask, continue until satisfied.
import { nonce, pointer, post, verb, words } from "./server.js";
import { Stage } from "./stage.js";
import { feedback, run } from "./rounds.js";

const byId = (id) => document.getElementById(id);
const stage = new Stage();
const rounds = Number(document.body.dataset.rounds);
let positive = true;

function sign(value) {
  positive = value;
  byId("add").setAttribute("aria-pressed", String(value));
  byId("remove").setAttribute("aria-pressed", String(!value));
}
byId("add").addEventListener("click", () => sign(true));
byId("remove").addEventListener("click", () => sign(false));

// A volume: its slices side by side in one image, one of them shown. Wheel, slider or keys go through them.
let volume = null;  // the trial that shows one
let slice = 0;
let redrawn = () => {};
function go(to) {
  slice = Math.min(Math.max(to, 0), volume.depth - 1);
  byId("slice").value = String(slice);
  byId("where").textContent = `${slice + 1} / ${volume.depth}`;
  redrawn();
}
const turn = (by) => go(slice + by);
byId("slice").addEventListener("input", () => go(Number(byId("slice").value)));
byId("slice-down").addEventListener("click", () => turn(-1));
byId("slice-up").addEventListener("click", () => turn(1));
function part(trial) {
  if (!trial.depth) return undefined;
  return [(slice % trial.columns) * trial.width, Math.floor(slice / trial.columns) * trial.height, trial.width, trial.height];
}

// Zoom with the wheel, the buttons or two fingers; move with Space and drag, or two fingers.
let space = false;
const fingers = new Map();
stage.canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (volume && !event.ctrlKey) return turn(event.deltaY > 0 ? -1 : 1);
  stage.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
}, { passive: false });
function middle() {
  const box = stage.canvas.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}
byId("zoom-in").addEventListener("click", () => stage.zoom(1.5, ...middle()));
byId("zoom-out").addEventListener("click", () => stage.zoom(1 / 1.5, ...middle()));
let gesture = false;  // two fingers were down: neither is a click
stage.canvas.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, event);
  gesture = fingers.size > 1;
});
for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
  stage.canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
}
stage.canvas.addEventListener("pointermove", (event) => {
  const last = fingers.get(event.pointerId);
  if (last === undefined) return;
  fingers.set(event.pointerId, event);
  if (fingers.size === 2) {
    const other = [...fingers.values()].find((each) => each.pointerId !== event.pointerId);
    const apart = (point) => Math.hypot(point.clientX - other.clientX, point.clientY - other.clientY);
    stage.zoom(apart(event) / Math.max(1, apart(last)), (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    stage.move((event.clientX - last.clientX) / 2, (event.clientY - last.clientY) / 2);
  } else if (space) {
    stage.move(event.clientX - last.clientX, event.clientY - last.clientY);
  }
});
const moving = () => space || gesture;
let outlined = false;
byId("outline").addEventListener("click", () => {
  outlined = !outlined;
  byId("outline").setAttribute("aria-pressed", String(outlined));
  stage.redraw();
});

addEventListener("keyup", (event) => { if (event.key === " ") space = false; });
const TURNS = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
addEventListener("keydown", (event) => {
  if (volume && event.key in TURNS && document.activeElement !== byId("slice")) {
    turn(TURNS[event.key]);
    event.preventDefault();
  }
  if (event.key === " " && document.activeElement?.tagName !== "BUTTON") {
    space = true;
    event.preventDefault();
  }
  if (event.key === "z" && !byId("undo").disabled) byId("undo").click();
  if (event.key === "x" || event.key === "-") sign(!positive);
  if (event.key === "Enter" && !byId("done").disabled && document.activeElement?.tagName !== "BUTTON") byId("done").click();
});

// Run lengths, row by row inside the mask's box, become an image to lay over the image.
function decoded(mask) {
  const image = new ImageData(mask.width, mask.height);
  const edges = new ImageData(mask.width, mask.height);
  const bits = new Uint8Array(mask.width * mask.height);
  let place = 0;
  mask.runs.forEach((length, k) => {
    if (k % 2) bits.fill(1, place, place + length);
    place += length;
  });
  for (let i = 0; i < bits.length; i += 1) {
    if (!bits[i]) continue;
    const x = i % mask.width;
    const edge = x === 0 || x === mask.width - 1 || !bits[i - 1] || !bits[i + 1] || !bits[i - mask.width] || !bits[i + mask.width];
    image.data.set(edge ? [255, 255, 255, 255] : [30, 120, 230, 115], 4 * i);
    if (edge) edges.data.set([255, 255, 255, 255], 4 * i);
  }
  return [image, edges].map((data) => {
    const canvas = new OffscreenCanvas(mask.width, mask.height);
    canvas.getContext("2d").putImageData(data, 0, 0);
    return canvas;
  });
}

// Sides of the patient at the edges of a slice: right, left, front, back.
function sides(context) {
  const { width, height } = stage.canvas;
  const size = 14 * devicePixelRatio;
  context.save();
  context.resetTransform();
  context.font = `600 ${size}px sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineWidth = size / 4;
  context.strokeStyle = "#000";
  context.fillStyle = "#fff";
  const places = { R: [size, height / 2], L: [width - size, height / 2], A: [width / 2, size], P: [width / 2, height - size] };
  for (const [text, place] of Object.entries(places)) {
    context.strokeText(text, ...place);
    context.fillText(text, ...place);
  }
  context.restore();
}

function layer(mask, clicks) {
  const images = mask && decoded(mask);
  return (context, across, down) => {
    if (images) {
      context.imageSmoothingEnabled = false;
      context.drawImage(images[outlined ? 1 : 0], mask.left * across, mask.top * down, mask.width * across, mask.height * down);
    }
    for (const click of clicks) {
      const radius = 6 * devicePixelRatio;
      context.beginPath();
      context.arc(click.x * across, click.y * down, radius, 0, 2 * Math.PI);
      context.fillStyle = click.positive ? "#0a7a4f" : "#b3261e";
      context.fill();
      context.lineWidth = 2 * devicePixelRatio;
      context.strokeStyle = "#fff";
      context.stroke();
      context.beginPath();
      context.moveTo(click.x * across - radius / 2, click.y * down);
      context.lineTo(click.x * across + radius / 2, click.y * down);
      if (click.positive) {
        context.moveTo(click.x * across, click.y * down - radius / 2);
        context.lineTo(click.x * across, click.y * down + radius / 2);
      }
      context.stroke();
    }
  };
}

// The next press on a button or on the canvas.
function pressed() {
  return new Promise((done) => {
    const stop = new AbortController();
    for (const id of ["done", "stop", "undo"]) {
      byId(id).addEventListener("click", () => { stop.abort(); done(id); }, { signal: stop.signal });
    }
    stage.press(moving).then((event) => { stop.abort(); done(event); });
  });
}

await run(async (trial) => {
  stage.lost = false;
  sign(true);
  const ask = byId("ask");
  ask.textContent = words.look;
  ask.className = "";
  const enable = (on) => { for (const id of ["done", "stop", "undo"]) byId(id).disabled = !on; };
  enable(false);
  stage.place.classList.remove("open");
  stage.show(trial.width, trial.height);
  volume = null;
  byId("slices").hidden = !trial.depth;
  slice = trial.first ?? 0;
  const image = trial.screens.at(-1);
  image.part = part(trial);
  const { times, since } = await stage.play(trial.screens);
  stage.place.classList.add("open");
  const clicks = trial.clicks;
  let masks = {};
  redrawn = () => {
    const here = clicks.filter((each) => each.slice === slice);
    const drawn = layer(masks[slice], here);
    const over = (context, across, down) => { drawn(context, across, down); if (trial.depth) sides(context); };
    stage.draw({ ...image, part: part(trial), over });
  };
  if (trial.depth) {
    volume = trial;
    byId("slice").max = String(trial.depth - 1);
    go(clicks.at(-1)?.slice ?? slice);
  }
  let shown = since;
  const send = async (message) => {
    ({ masks } = await post(`/api/trials/${trial.id}/steps`, { zoom: stage.scale, ...message }));
    redrawn();
    shown = performance.now();
    enable(clicks.length > 0);
  };
  const click = (last, ms, kind) => send({ number: clicks.length, ...last, user_ms: ms, pointer: kind });
  // A page that was loaded again asks for the last mask again.
  if (clicks.length) await click(clicks.at(-1), 0, "mouse");
  let accepted = null;
  while (accepted === null) {
    const full = clicks.length >= rounds;
    ask.textContent = clicks.length ? words.interact_correct : words[`${verb}_now_first`];
    ask.className = "now";
    const got = await pressed();
    if (got === "done" || got === "stop") {
      accepted = got === "done";
      break;
    }
    ask.textContent = words.interact_wait;
    ask.className = "";
    if (got === "undo") {
      const number = clicks.length;
      clicks.pop();
      await send({ number, undo: true, user_ms: Math.max(0, performance.now() - shown), pointer: "mouse" });
      continue;
    }
    const { x, y } = stage.at(got);
    if (full || x < 0 || y < 0 || x >= trial.width || y >= trial.height) continue;
    const right = got.button === 2 || got.shiftKey ? false : positive;
    clicks.push({ x, y, slice, positive: right });
    await click(clicks.at(-1), Math.max(0, got.timeStamp - shown), pointer(got));
  }
  const kept = await post(`/api/trials/${trial.id}`, {
    nonce: nonce(), accepted, review_ms: Math.max(0, performance.now() - shown), screens: times, focus_lost: stage.lost,
  });
  await feedback(kept, ask);
  return kept;
});
