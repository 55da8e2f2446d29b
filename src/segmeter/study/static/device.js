// Guesses what the person works with, and lets them say it.
import { post } from "./server.js";

const touch = matchMedia("(pointer: coarse)").matches && Math.min(screen.width, screen.height) < 900;
for (const button of document.querySelectorAll("[data-device]")) {
  const guessed = (button.dataset.device === "mobile") === touch;
  button.classList.toggle("guess", guessed);
  button.querySelector("em").hidden = !guessed;
  button.addEventListener("click", async () => {
    // Refused, the page is asked for again, and says why.
    await post("/api/device", { device: button.dataset.device }).catch(() => {});
    location.assign(`${document.body.dataset.base}/work`);
  });
}
