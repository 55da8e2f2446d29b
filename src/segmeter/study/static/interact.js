// Segmenting with a model in the loop: click, see the mask, go on until content.
import { nonce, post, words } from "./server.js";
import { Stage } from "./stage.js";
import { run } from "./rounds.js";

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
addEventListener("keydown", (event) => {
  if (event.key === "x" || event.key === "-") sign(!positive);
  if (event.key === "Enter" && !byId("done").disabled && document.activeElement?.tagName !== "BUTTON") byId("done").click();
});

// Run lengths, row by row inside the mask's box, become an image to lay over the image.
function decoded(mask) {
  if (mask.width === 0 || mask.height === 0) return null;
  const canvas = new OffscreenCanvas(mask.width, mask.height);
  const image = new ImageData(mask.width, mask.height);
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
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function layer(mask, clicks) {
  const image = mask === null ? null : decoded(mask);
  return (context, across, down) => {
    if (image) {
      context.imageSmoothingEnabled = false;
      context.drawImage(image, mask.left * across, mask.top * down, mask.width * across, mask.height * down);
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

function ended() {
  return new Promise((done) => {
    const stop = new AbortController();
    for (const [id, content] of [["done", true], ["stop", false]]) {
      byId(id).addEventListener("click", () => { stop.abort(); done({ content }); }, { signal: stop.signal });
    }
  });
}

await run(async (trial) => {
  stage.lost = false;
  sign(true);
  const ask = byId("ask");
  ask.textContent = words.look;
  ask.className = "";
  byId("done").disabled = byId("stop").disabled = true;
  stage.place.classList.remove("open");
  stage.show(trial.width, trial.height);
  const { times, since } = await stage.play(trial.screens);
  const image = trial.screens.at(-1);
  stage.place.classList.add("open");
  const over = ended();
  const clicks = trial.clicks;
  let shown = since;
  const send = async (click, ms, pointer) => {
    const mask = await post(`/api/trials/${trial.id}/steps`, {
      number: clicks.length, x: click.x, y: click.y, positive: click.positive, user_ms: ms, pointer,
    });
    stage.draw({ ...image, over: layer(mask, clicks) });
    shown = performance.now();
    byId("done").disabled = byId("stop").disabled = false;
  };
  // A page that was loaded again asks for the last mask again.
  if (clicks.length) await send(clicks.at(-1), 0, "mouse");
  let content = null;
  while (content === null) {
    ask.textContent = clicks.length ? words.interact_correct : words.click_now_first;
    ask.className = "now";
    const got = await Promise.race([stage.press(), over]);
    if (!(got instanceof Event)) {
      content = got.content;
      break;
    }
    const { x, y } = stage.at(got);
    const right = got.button === 2 || got.shiftKey ? false : positive;
    if (x < 0 || y < 0 || x >= trial.width || y >= trial.height) continue;
    clicks.push({ x, y, positive: right });
    ask.textContent = words.interact_wait;
    ask.className = "";
    const kind = got.pointerType === "touch" || got.pointerType === "pen" ? got.pointerType : "mouse";
    await send(clicks.at(-1), Math.max(0, got.timeStamp - shown), kind);
    if (clicks.length >= rounds) content = (await over).content;
  }
  await post(`/api/trials/${trial.id}`, {
    nonce: nonce(), content, review_ms: Math.max(0, performance.now() - shown), screens: times, focus_lost: stage.lost,
  });
});
