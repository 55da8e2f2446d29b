const rgb = data.colours.map(text => [1, 3, 5].map(k => parseInt(text.slice(k, k + 2), 16)));
const masks = data.masks.map(([counts, area, score, stability, y, x], place) =>
  ({ ends: ends(counts), area, score, stability, y, x, place }));
const scores = masks.map(m => m.score).filter(Number.isFinite);
const lowest = Math.min(0, ...scores), highest = Math.max(1, ...scores);
let shown = [], owner = new Int32Array(0), chosen = -1, pointed = -1, pixels = null;

// COCO's text to the ends of its runs, down the columns; odd runs are the mask.
function ends(text) {
  const counts = [];
  for (let i = 0; i < text.length;) {
    let value = 0, shift = 0, code;
    do { code = text.charCodeAt(i++) - 48; value += (code & 31) * 2 ** shift; shift += 5; } while (code & 32);
    if (code & 16) value -= 2 ** shift;
    counts.push(value + (counts.length > 2 ? counts[counts.length - 2] : 0));
  }
  let sum = 0;
  return Float64Array.from(counts, count => sum += count);
}
function each(mask, paint) {
  for (let k = 1; k < mask.ends.length; k += 2)
    for (let at = mask.ends[k - 1]; at < mask.ends[k]; at++)
      paint((at % height) * width + Math.floor(at / height));
}
function holds(mask, y, x) {
  const at = x * height + y;
  let low = 0, high = mask.ends.length;
  while (low < high) { const middle = (low + high) >> 1; if (mask.ends[middle] <= at) low = middle + 1; else high = middle; }
  return low % 2 === 1;
}
function choose() {
  const score = lowest + (highest - lowest) * $("score").value / 100, stability = $("stability").value / 100;
  const area = $("area").value === "0" ? 0 : Math.round((height * width) ** ($("area").value / 100));
  const any = $("score").value === "0", all = $("stability").value === "0";
  shown = masks.filter(m => (any || m.score >= score) && (all || m.stability >= stability) && m.area >= area);
  $("score-value").textContent = any ? "any" : score.toFixed(2);
  $("stability-value").textContent = all ? "any" : stability.toFixed(2);
  $("area-value").textContent = area ? area.toLocaleString("en") + " px" : "any";
  $("count").textContent = masks.length === 0 ? "No masks: nothing in this image passed the filters."
    : shown.length === masks.length ? (masks.length === 1 ? "1 mask" : masks.length + " masks")
    : shown.length + " of " + masks.length + " masks";
  $("heads").textContent = line("no.", "area", "score", "stability");
  $("heads").hidden = $("list").hidden = $("controls").hidden = masks.length === 0;
  if (masks.length === 0) $("readout").textContent = "Lower the least score or stability, or ask at more points, to find some.";
  $("list").replaceChildren(...shown.map(m => new Option(label(m), m.place)));
  owner = new Int32Array(height * width);
  for (const m of [...shown].sort((a, b) => b.area - a.area || a.place - b.place)) each(m, at => owner[at] = m.place + 1);
  chosen = pointed = -1;
  draw();
}
function line(...words) {  // in columns: a list drops spaces that may break
  const wide = [4, 13, 7, 10];
  return words.map((word, k) => String(word).padStart(wide[k])).join("").replaceAll(" ", "\u00a0");
}
function label(m) {
  const stability = m.stability === null ? "–" : m.stability.toFixed(2);
  return line(m.place + 1, m.area.toLocaleString("en") + " px", m.score.toFixed(2), stability);
}
function draw() {
  if (!pixels) return;
  const frame = new ImageData(new Uint8ClampedArray(pixels.data), width, height), out = frame.data;
  const part = $("opacity").value / 100, alone = pointed >= 0 ? pointed : chosen;
  $("opacity-value").textContent = $("opacity").value + " %";
  if (alone >= 0) {
    for (let i = 0; i < out.length; i += 4) {  // the rest steps back
      const grey = 0.35 * (0.3 * out[i] + 0.59 * out[i + 1] + 0.11 * out[i + 2]);
      out[i] = out[i + 1] = out[i + 2] = grey;
    }
    each(masks[alone], at => { for (let c = 0; c < 3; c++)
      out[4 * at + c] = (1 - part / 2) * pixels.data[4 * at + c] + part / 2 * rgb[alone][c]; });
  } else {
    for (let at = 0; at < owner.length; at++) {
      if (owner[at]) for (let c = 0; c < 3; c++)
        out[4 * at + c] = (1 - part) * out[4 * at + c] + part * rgb[owner[at] - 1][c];
      const edge = (at % width < width - 1 && owner[at] !== owner[at + 1]) || owner[at] !== (owner[at + width] ?? owner[at]);
      if (edge) out[4 * at] = out[4 * at + 1] = out[4 * at + 2] = 255;
    }
  }
  pen.putImageData(frame, 0, 0);
  if (alone >= 0) ring(masks[alone].y, masks[alone].x, "#fff", Math.max(4, width / 150));
}
function tell(place, others) {
  if (place < 0) { $("readout").textContent = others; return; }
  const m = masks[place], share = 100 * m.area / (height * width);
  $("readout").textContent = "Mask " + (place + 1) + ": " + m.area.toLocaleString("en") + " px (" + share.toFixed(share < 1 ? 2 : 1)
    + " % of the image), score " + m.score.toFixed(3) + (m.stability === null ? "" : ", stability " + m.stability.toFixed(3))
    + ", made by a click at row " + m.y + ", column " + m.x + "." + others;
}
function at(event) {
  const [y, x] = pixelAt(event);
  return shown.filter(m => holds(m, y, x)).sort((a, b) => a.area - b.area);
}
canvas.addEventListener("pointermove", event => {
  if (!masks.length) return;
  const here = at(event), next = here.length ? here[0].place : -1;
  if (next === pointed && pointed >= 0) return;
  pointed = next;
  const more = here.length > 1 ? " " + (here.length - 1) + " more here; click to go through them." : "";
  tell(pointed, pointed < 0 ? "No mask here." : more);
  draw();
});
canvas.addEventListener("pointerleave", () => { pointed = -1; if (masks.length) tell(chosen, chosen < 0 ? "Point at the image, or choose in the list, to see one mask alone." : ""); draw(); });
canvas.addEventListener("click", event => {  // smallest first, then the next larger one
  if (!masks.length) return;
  const here = at(event), now = here.findIndex(m => m.place === chosen);
  pointed = -1;
  chosen = here.length ? here[(now + 1) % here.length].place : -1;
  $("list").value = chosen;
  tell(chosen, chosen < 0 ? "No mask here." : "");
  draw();
});
$("list").addEventListener("change", () => { pointed = -1; chosen = Number($("list").value); tell(chosen, ""); draw(); });
document.addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  chosen = pointed = -1; $("list").selectedIndex = -1; tell(-1, "All masks are shown."); draw();
});
for (const id of ["score", "stability", "area"]) $(id).addEventListener("input", choose);
$("opacity").addEventListener("input", draw);
show(() => {
  pen.drawImage(image, 0, 0, width, height);
  pixels = pen.getImageData(0, 0, width, height);
  choose();
});
