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

export async function post(path, body = null) {
  const trouble = document.getElementById("trouble");
  for (let attempt = 0; ; attempt += 1) {
    let answer = null;
    try {
      answer = await fetch(`${base}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-segmeter-token": token },
        body: body === null ? null : JSON.stringify(body),
      });
    } catch {
      answer = null; // no connection: the same message again
    }
    const again = answer === null || answer.status >= 500 || answer.status === 429;
    if (trouble) trouble.hidden = !again;
    if (!again) {
      const said = await answer.json();
      if (!answer.ok) throw new Refusal(answer.status, said.error);
      return said;
    }
    await pause(Math.min(8000, 400 * 2 ** attempt));
  }
}

export async function picture(trial, name) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const answer = await fetch(`${base}/pictures/${trial}/${name}`);
      if (answer.ok) return await createImageBitmap(await answer.blob());
      if (answer.status < 500 && answer.status !== 429) throw new Refusal(answer.status, "picture");
    } catch (error) {
      if (error instanceof Refusal) throw error;
    }
    await pause(Math.min(8000, 400 * 2 ** attempt));
  }
}

export const addressOf = (trial, name) => `${base}/pictures/${trial}/${name}`;
