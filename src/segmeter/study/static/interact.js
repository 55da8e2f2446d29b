// Segmenting with a model in the loop: click, see the mask, continue until satisfied.
import { nonce, pointer, post, verb, words } from "./server.js";
import { Stage, Zoomed } from "./stage.js";
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

// A volume is shown by the viewer of slices, made for each trial.
let viewer = null;
let surface = stage;  // what is zoomed
let clicked = () => {};
const phrases = { where: words.viewer_where, seen: words.viewer_seen };
function openVolume(trial) {
  const article = byId("viewer").content.firstElementChild.cloneNode(true);
  stage.canvas.hidden = true;
  stage.place.append(article);
  const { volume: data } = trial;
  viewer = startSlices(article, { data, image: trial.screens.at(-1).bitmap, phrases, onpoint: (...press) => clicked(...press) });
  viewer.canvas.focus({ preventScroll: true });
  surface = new Zoomed(article.querySelector(".live"), () => {
    const { scale, corner } = surface;
    viewer.canvas.style.transform = `translate(${100 * corner[0]}%, ${100 * corner[1]}%) scale(${scale})`;
  });
}
function closeVolume() {
  stage.place.querySelector("article")?.remove();
  stage.canvas.hidden = false;
  viewer = null;
  surface = stage;
}

// Zoom with the wheel (slices: Ctrl and wheel), the buttons or two fingers; move with Space and
// drag, or two fingers.
let space = false;
const fingers = new Map();
stage.place.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (viewer && !event.ctrlKey) return;
  surface.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
}, { passive: false });
function middle() {
  const box = surface.frame.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}
byId("zoom-in").addEventListener("click", () => surface.zoom(1.5, ...middle()));
byId("zoom-out").addEventListener("click", () => surface.zoom(1 / 1.5, ...middle()));
stage.place.addEventListener("contextmenu", (event) => event.preventDefault());
let gesture = false;  // two fingers were down: neither is a click
stage.place.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, event);
  gesture = fingers.size > 1;
  if (viewer && space) event.stopPropagation();  // moves the slice; the viewer would change it
}, true);
for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
  stage.place.addEventListener(name, (event) => fingers.delete(event.pointerId));
}
stage.place.addEventListener("pointermove", (event) => {
  const last = fingers.get(event.pointerId);
  if (last === undefined) return;
  fingers.set(event.pointerId, event);
  if (fingers.size === 2) {
    const other = [...fingers.values()].find((each) => each.pointerId !== event.pointerId);
    const apart = (point) => Math.hypot(point.clientX - other.clientX, point.clientY - other.clientY);
    surface.zoom(apart(event) / Math.max(1, apart(last)), (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    surface.move((event.clientX - last.clientX) / 2, (event.clientY - last.clientY) / 2);
  } else if (space) {
    surface.move(event.clientX - last.clientX, event.clientY - last.clientY);
  }
});
const moving = () => space || gesture;
let outlined = false;
byId("outline").addEventListener("click", () => {
  outlined = !outlined;
  byId("outline").setAttribute("aria-pressed", String(outlined));
  if (viewer) viewer.fill(!outlined);
  else stage.redraw();
});

addEventListener("keyup", (event) => { if (event.key === " ") space = false; });
addEventListener("keydown", (event) => {
  if (event.key === " " && document.activeElement?.tagName !== "BUTTON") {
    space = true;
    event.preventDefault();
  }
  if (event.key === "z" && !byId("undo").disabled) byId("undo").click();
  if (event.key === "x" || event.key === "-") sign(!positive);
  if (event.key === "Enter" && !byId("done").disabled && document.activeElement?.tagName !== "BUTTON") byId("done").click();
});

// A mask, run lengths inside its box, becomes an image to lay over the image.
function decoded({ size: [height, width], runs }) {
  const bits = unpacked(runs, [1, height, width]);
  const [image, edges] = [new ImageData(width, height), new ImageData(width, height)];
  for (let i = 0; i < bits.length; i += 1) {
    if (!bits[i]) continue;
    const x = i % width;
    const edge = x === 0 || x === width - 1 || !bits[i - 1] || !bits[i + 1] || !bits[i - width] || !bits[i + width];
    image.data.set(edge ? [255, 255, 255, 255] : [30, 120, 230, 115], 4 * i);
    if (edge) edges.data.set([255, 255, 255, 255], 4 * i);
  }
  return [image, edges].map((data) => {
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d").putImageData(data, 0, 0);
    return canvas;
  });
}

function layer(mask, clicks) {
  const images = mask && decoded(mask);
  return (context, across, down) => {
    if (images) {
      context.imageSmoothingEnabled = false;
      const [[top, left], [height, width]] = [mask.low, mask.size];
      context.drawImage(images[outlined ? 1 : 0], left * across, top * down, width * across, height * down);
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

const voxel = ({ x, y, slice }) => [slice, Math.floor(y), Math.floor(x)];

// The next press on a button or on the image: `{ x, y, slice, event }`, slice 0 in an image.
function pressed() {
  return new Promise((done) => {
    const stop = new AbortController();
    const end = (press) => { stop.abort(); clicked = () => {}; done(press); };
    for (const id of ["done", "stop", "undo"]) {
      byId(id).addEventListener("click", () => end(id), { signal: stop.signal });
    }
    if (viewer) clicked = ([slice, y, x], event) => { if (!moving()) end({ x: x + 0.5, y: y + 0.5, slice, event }); };
    else stage.press(moving).then((event) => end({ ...stage.at(event), slice: 0, event }));
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
  closeVolume();
  stage.place.classList.remove("open");
  stage.show(trial.width, trial.height);
  const image = trial.screens.at(-1);
  const { times, since } = await stage.play(trial.screens);
  stage.place.classList.add("open");
  const clicks = trial.clicks;
  let mask = null;
  if (trial.volume) {
    if (clicks.length) trial.volume.at = voxel(clicks.at(-1));
    openVolume(trial);
    viewer.fill(!outlined);
  }
  const redrawn = () => {
    if (viewer) viewer.draw(mask, clicks.map((each) => ({ at: voxel(each), positive: each.positive })));
    else stage.draw({ ...image, over: layer(mask, clicks) });
  };
  let shown = since;
  const send = async (message) => {
    ({ mask } = await post(`/api/trials/${trial.id}/steps`, { zoom: surface.scale, ...message }));
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
    const { x, y, slice, event } = got;
    if (full || (!viewer && (x < 0 || y < 0 || x >= trial.width || y >= trial.height))) continue;
    const right = event.button === 2 || event.shiftKey ? false : positive;
    clicks.push({ x, y, slice, positive: right });
    await click(clicks.at(-1), Math.max(0, event.timeStamp - shown), pointer(event));
  }
  const kept = await post(`/api/trials/${trial.id}`, {
    nonce: nonce(), accepted, review_ms: Math.max(0, performance.now() - shown), screens: times, focus_lost: stage.lost,
  });
  await feedback(kept, ask);
  return kept;
});
