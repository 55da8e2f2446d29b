// Talks to the server: every message is sent until it is acknowledged, and only counted once.

const { base, token } = document.body.dataset;

export class Refusal extends Error {
  constructor(status, words) { super(words); this.status = status; }
}

export const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}");

export function nonce() {
  const raw = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks until there is an answer; meanwhile the page says that there is no connection.
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

export async function post(path, body = null) {
  const headers = { "content-type": "application/json", "x-segmeter-token": token };
  const answer = await fetched(path, { method: "POST", headers, body: body === null ? null : JSON.stringify(body) });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));  // a proxy may refuse without JSON
  throw new Refusal(answer.status, said.error ?? answer.statusText);
}

const pathOf = (trial, name) => `/images/${trial}/${name}`;

export async function imageFile(trial, name) {
  const answer = await fetched(pathOf(trial, name));
  if (!answer.ok) throw new Refusal(answer.status, answer.statusText);
  return answer.blob();
}

export async function image(trial, name) {
  return createImageBitmap(await imageFile(trial, name));
}
