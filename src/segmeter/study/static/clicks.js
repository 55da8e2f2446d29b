// A clicking trial: timed screens, then one click.
import { nonce, pointer, post, verb, words } from "./server.js";
import { dot, Stage } from "./stage.js";
import { feedback, pause, run } from "./rounds.js";

const stage = new Stage();
const ask = document.getElementById("ask");

await run(async (trial) => {
  stage.lost = false;
  let open = false;
  let blocked = 0;
  ask.textContent = words.look;
  ask.className = "";
  stage.place.classList.remove("open");
  stage.show(trial.width, trial.height);
  const pressed = stage.press(() => {
    if (!open) blocked += 1;
    return !open;
  });
  const { times, since } = await stage.play(trial.screens);
  open = true;
  stage.place.classList.add("open");
  ask.textContent = words[`${verb}_now_${trial.part}`];
  ask.className = "now";
  const event = await pressed;
  const { x, y, shown } = stage.at(event);
  const answer = {
    nonce: nonce(),
    x,
    y,
    natural_width: trial.width,
    natural_height: trial.height,
    shown_width: shown[0],
    shown_height: shown[1],
    pixel_ratio: devicePixelRatio,
    pointer: pointer(event),
    latency_ms: Math.max(0, event.timeStamp - since),
    screens: times,
    focus_lost: stage.lost,
    blocked_clicks: blocked,
  };
  const radius = 0.01 * Math.hypot(trial.width, trial.height);
  stage.draw({ ...trial.screens.at(-1), over: dot(x, y, radius) });
  ask.className = "";
  ask.textContent = "\u00a0";
  const [kept] = await Promise.all([post(`/api/trials/${trial.id}`, answer), pause(180)]);
  await feedback(kept, ask);
  return kept;
});
