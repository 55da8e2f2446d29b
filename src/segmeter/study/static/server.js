// Talks to the server: every message is sent until it is acknowledged, and only counted once.

const { base, token, touch } = document.body.dataset;

export class Refusal extends Error {
  constructor(status, words) { super(words); this.status = status; }
}

export const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}");
export const verb = touch === "1" ? "tap" : "click";

export function nonce() {
  const raw = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The kind of pointer behind a click; keys make clicks, too.
export function pointer(event) {
  if (event.pointerType === "touch" || event.pointerType === "pen") return event.pointerType;
  return event.type === "keydown" || (event.type === "click" && event.detail === 0) ? "keyboard" : "mouse";
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks until there is a reply; meanwhile the page says that there is no connection.
async function fetched(path, options) {
  const trouble = document.getElementById("trouble");
  for (let attempt = 0; ; attempt += 1) {
    const answer = await fetch(`${base}${path}`, options).catch(() => null);
    const again = answer === null || answer.status >= 500 || answer.status === 429;
    if (trouble) trouble.hidden = !again;
    if (!again) return answer;
    await pause(Math.min(8000, 400 * 2 ** attempt));
  }
}

const headers = { "content-type": "application/json", "x-segmeter-token": token };

export async function post(path, body = null) {
  const answer = await fetched(path, { method: "POST", headers, body: body === null ? null : JSON.stringify(body) });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));  // a proxy may refuse without JSON
  throw new Refusal(answer.status, said.error ?? answer.statusText);
}

// Tells the server that the page is closed; its places are given back soon.
export function leave(batch) {
  fetch(`${base}/api/batches/${batch}/leave`, { method: "POST", headers, keepalive: true }).catch(() => {});
}

const pathOf = (trial, name) => `/images/${trial}/${name}`;

export async function imageFile(trial, name) {
  const answer = await fetched(pathOf(trial, name));
  if (!answer.ok) throw new Refusal(answer.status, answer.statusText);
  return answer.blob();
}

export async function bitmap(trial, name) {
  return createImageBitmap(await imageFile(trial, name));
}
