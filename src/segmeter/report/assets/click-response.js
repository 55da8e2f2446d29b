const stops = [[0, 32, 76], [33, 61, 107], [85, 91, 108], [123, 122, 119], [165, 156, 116], [211, 192, 100], [255, 233, 69]];
const [rows, columns] = data.size, step = data.stride;
const values = data.values.map(text => {
  const raw = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Uint16Array(raw.buffer);
});
let place = null;

function colour(share) {
  const at = Math.min(share, 0.9999) * (stops.length - 1), k = Math.floor(at), part = at - k;
  return stops[k].map((c, i) => Math.round(c + (stops[k + 1][i] - c) * part));
}
function draw() {
  const table = values[$("which").value], limit = $("bad").value * 100;
  pen.clearRect(0, 0, width, height);
  pen.filter = "grayscale(1)"; pen.drawImage(image, 0, 0, width, height); pen.filter = "none";
  pen.globalAlpha = $("opacity").value / 100;
  let tried = 0, bad = 0;
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
    const v = table[i * columns + j];
    if (v === 65535) continue;
    tried++;
    const y = data.low[0] + i * step - (step >> 1), x = data.low[1] + j * step - (step >> 1);
    pen.fillStyle = "rgb(" + colour(v / 10000) + ")";
    pen.fillRect(x, y, step, step);
    if (v >= limit) continue;
    bad++;
    const dot = Math.max(1, step / 3);
    pen.fillStyle = "#d7301f";
    if (step > 2 || (i + j) % 3 === 0) pen.fillRect(x + (step - dot) / 2, y + (step - dot) / 2, dot, dot);
  }
  pen.globalAlpha = 1;
  const radius = Math.max(4, width / 120);
  ring(...data.centre, "#ffffff", radius);
  if (place) ring(...place, "#ffb000", radius);
  $("limit").textContent = $("bad").value + " %";
  $("share").textContent = (100 * bad / tried).toFixed(1) + " % of " + tried + " clicks are bad (red dots)";
}
function say(y, x) {
  const i = Math.round((y - data.low[0]) / step), j = Math.round((x - data.low[1]) / step);
  const known = i >= 0 && j >= 0 && i < rows && j < columns && values[0][i * columns + j] !== 65535;
  if (!known) { place = null; $("readout").textContent = "No valid click at row " + y + ", column " + x + "."; draw(); return; }
  place = [data.low[0] + i * step, data.low[1] + j * step];
  const scores = data.names.map((name, k) => name + " " + (values[k][i * columns + j] / 100).toFixed(1) + " %");
  $("readout").textContent = "Row " + place[0] + ", column " + place[1] + ": " + scores.join(", ");
  draw();
}
canvas.addEventListener("pointermove", event => say(...pixelAt(event)));
canvas.addEventListener("keydown", event => {
  const moves = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] }[event.key];
  if (!moves) return;
  event.preventDefault();
  const from = place || data.centre;
  say(from[0] + moves[0], from[1] + moves[1]);
});
for (const id of ["which", "opacity", "bad"]) $(id).addEventListener("input", draw);
show(draw);
