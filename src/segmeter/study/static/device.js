// Suggests a device, and lets the participant choose.
import { post } from "./server.js";

const touch = matchMedia("(pointer: coarse)").matches && Math.min(screen.width, screen.height) < 900;
for (const button of document.querySelectorAll("[data-device]")) {
  const suggested = (button.dataset.device === "mobile") === touch;
  button.classList.toggle("suggested", suggested);
  button.querySelector("em").hidden = !suggested;
  button.addEventListener("click", async () => {
    // If refused, the page is loaded again and gives the reason.
    await post("/api/device", { device: button.dataset.device }).catch(() => {});
    location.assign(`${document.body.dataset.base}/work`);
  });
}
