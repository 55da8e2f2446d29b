"use strict";
/* The viewer of slices, in reports, `browse` and studies: plane, slice and step decide what is cut
   out of the voxels and drawn. */
const CUTS = [
  { name: "Axial", across: 2, down: 1, along: 0, edges: ["R", "L", "A", "P"] },
  { name: "Coronal", across: 2, down: 0, along: 1, edges: ["R", "L", "S", "I"] },
  { name: "Sagittal", across: 1, down: 0, along: 2, edges: ["A", "P", "S", "I"] },
];

/* A video has one plane, seen as it is. */
const FRAMES = [{ name: "Frame", across: 2, down: 1, along: 0, edges: [] }];

const PHRASES = {
  where: "{plane} slice, {number} in the file{mm} ({shown} of {all} shown)",
  frame: "Frame {number} ({shown} of {all})",
  seen: "Shown from {low} to {high} {unit}",
};
const phrased = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]).trim();

/* `data` and `image` (a mosaic of the axial slices) come from the article or are given; `onpoint`
   is called with the voxel (z, y, x) that was clicked and the event. */
function startSlices(article, { data = JSON.parse(article.dataset.volume), image = document.getElementById(article.dataset.image), phrases = PHRASES, onpoint = null } = {}) {
  const PLANES = data.every ? FRAMES : CUTS;
  const canvas = article.querySelector("canvas");
  const slider = article.querySelector("[data-at]");
  const where = article.querySelector(".where");
  const layers = { ground_truth: true, mask: true, prompts: true, fill: true };
  const lights = lightsOf(article, data.greys, phrases.seen, () => show());
  const steps = [...article.querySelectorAll(".steps li")];
  const size = data.shape, strides = [size[1] * size[2], size[2], 1];
  const ground_truth = data.ground_truth && unpacked(data.ground_truth, size);
  let masks = data.steps.map((step) => unpacked(step.mask, size));
  const at = data.at ?? size.map((n) => n >> 1);
  let plane = 0, step = data.steps.length - 1, voxels = null;
  const judged = ground_truth || masks[step];
  if (judged) fullest(judged, size, at);

  function draw() {
    if (!voxels) return;
    const p = PLANES[plane], wide = size[p.across], high = size[p.down];
    const ratio = (data.spacing[p.down] * high) / (data.spacing[p.across] * wide);
    const scale = Math.max(1, Math.round(640 / Math.max(wide, wide * ratio)));
    const sx = scale, sy = scale * data.spacing[p.down] / data.spacing[p.across];
    canvas.width = Math.round(wide * sx);
    canvas.height = Math.max(1, Math.round(high * sy));
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.drawImage(cut(p, wide, high), 0, 0, canvas.width, canvas.height);
    if (masks[step] && layers.mask) trace(pen, masks[step], p, sx, sy, "#5db2ff", [], layers.fill ? "rgb(47 143 224 / .28)" : "");
    if (ground_truth && layers.ground_truth) trace(pen, ground_truth, p, sx, sy, "#ffffff", [4, 3], "");
    for (let k = 0; k <= step && layers.prompts; k++) {
      pen.globalAlpha = k === step ? 1 : .6;
      for (const prompt of (data.steps[k] || { prompts: [] }).prompts) mark(pen, prompt, p, sx, sy);
    }
    pen.globalAlpha = 1;
    name(pen, p.edges);
  }
  /* Seen as radiologists do: front and head up, the patient's right on the left. */
  function place(p, row, column) {
    const [r, c] = data.every ? [row, column] : [size[p.down] - 1 - row, size[p.across] - 1 - column];
    return at[p.along] * strides[p.along] + r * strides[p.down] + c * strides[p.across];
  }
  function cut(p, wide, high) {
    const small = document.createElement("canvas");
    small.width = wide;
    small.height = high;
    const pen = small.getContext("2d"), part = pen.createImageData(wide, high);
    for (let row = 0, k = 0; row < high; row++) {
      for (let column = 0; column < wide; column++, k += 4) {
        const grey = lights.shades[voxels[place(p, row, column)]];
        part.data[k] = part.data[k + 1] = part.data[k + 2] = grey;
        part.data[k + 3] = 255;
      }
    }
    pen.putImageData(part, 0, 0);
    return small;
  }
  function trace(pen, bits, p, sx, sy, colour, dash, fill) {
    const wide = size[p.across], high = size[p.down];
    const inside = (r, c) => r >= 0 && c >= 0 && r < high && c < wide && bits[place(p, r, c)];
    const path = new Path2D();
    for (let row = 0; row < high; row++) {
      for (let column = 0; column < wide; column++) {
        if (!inside(row, column)) continue;
        const x = column * sx, y = row * sy;
        if (fill) { pen.fillStyle = fill; pen.fillRect(x, y, sx, sy); }
        if (!inside(row - 1, column)) { path.moveTo(x, y); path.lineTo(x + sx, y); }
        if (!inside(row + 1, column)) { path.moveTo(x, y + sy); path.lineTo(x + sx, y + sy); }
        if (!inside(row, column - 1)) { path.moveTo(x, y); path.lineTo(x, y + sy); }
        if (!inside(row, column + 1)) { path.moveTo(x + sx, y); path.lineTo(x + sx, y + sy); }
      }
    }
    pen.setLineDash([]);
    pen.strokeStyle = "rgb(0 0 0 / .65)";
    pen.lineWidth = 3.5;
    pen.stroke(path);
    pen.setLineDash(dash);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.8;
    pen.stroke(path);
    pen.setLineDash([]);
  }
  function spot(p, point, sx, sy) {
    if (data.every) return [(point[p.across] + .5) * sx, (point[p.down] + .5) * sy];
    return [(size[p.across] - .5 - point[p.across]) * sx, (size[p.down] - .5 - point[p.down]) * sy];
  }
  function mark(pen, prompt, p, sx, sy) {
    const here = at[p.along];
    if (prompt.at && Math.round(prompt.at[p.along]) === here) {
      const [x, y] = spot(p, prompt.at, sx, sy);
      pen.fillStyle = prompt.positive ? "#0a7a4f" : "#b3261e";
      pen.strokeStyle = "#fff";
      pen.lineWidth = 1.6;
      pen.beginPath();
      if (prompt.positive) pen.arc(x, y, 7, 0, 7); else pen.rect(x - 6.5, y - 6.5, 13, 13);
      pen.fill();
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x - 4, y);
      pen.lineTo(x + 4, y);
      if (prompt.positive) { pen.moveTo(x, y - 4); pen.lineTo(x, y + 4); }
      pen.stroke();
    } else if (prompt.low && here >= prompt.low[p.along] && here <= prompt.high[p.along]) {
      const ends = [spot(p, prompt.low, sx, sy), spot(p, prompt.high, sx, sy)];
      const [[x0, y0], [x1, y1]] = data.every ? ends : ends.reverse();
      pen.strokeStyle = "#35c09a";
      pen.lineWidth = 2;
      pen.strokeRect(x0 - sx / 2, y0 - sy / 2, x1 - x0 + sx, y1 - y0 + sy);
    }
  }
  function name(pen, edges) {
    const { width, height } = canvas;
    pen.font = "600 13px sans-serif";
    pen.fillStyle = "#fff";
    pen.strokeStyle = "#000";
    pen.lineWidth = 3;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    const places = [[10, height / 2], [width - 10, height / 2], [width / 2, 11], [width / 2, height - 11]];
    edges.forEach((text, k) => { pen.strokeText(text, ...places[k]); pen.fillText(text, ...places[k]); });
  }

  function show() {
    const p = PLANES[plane], n = size[p.along];
    at[p.along] = Math.min(Math.max(at[p.along], 0), n - 1);
    slider.max = String(n - 1);
    slider.value = String(at[p.along]);
    article.dataset.slice = String(at[p.along]);
    article.dataset.plane = p.name;
    article.dataset.now = String(step + 1);
    const own = data.first[p.along] + at[p.along] * data.stride[p.along];
    const middle = size.map((m, axis) => axis === p.along ? at[axis] : (m - 1) / 2);
    const plain = { plane: article.querySelector(`[data-plane="${plane}"]`)?.textContent, shown: at[p.along] + 1, all: n };
    where.textContent = data.every ? phrased(phrases.frame, { ...plain, number: own * data.every })
      : phrased(phrases.where, { ...plain, number: number(p.along, at[p.along]), mm: data.affine ? `, ${millimetres(middle)[p.along]} mm` : "" });
    for (const box of article.querySelectorAll("[data-layer]")) box.checked = layers[box.dataset.layer];
    for (const button of article.querySelectorAll("[data-plane]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.plane) === plane));
    }
    for (const item of steps) item.classList.toggle("on", Number(item.dataset.round) === step + 1);
    if (pointer) name_spot(pointer);
    requestAnimationFrame(draw);
  }
  /* A slice as its file counts; a voxel in millimetres of the patient, along (z, y, x). */
  function number(axis, place) {
    const [word, first, by] = data.numbers[axis];
    return `${word} ${word.length > 1 ? "" : "= "}${first + by * (data.first[axis] + place * data.stride[axis])}`;
  }
  function millimetres(place) {
    const there = [...place.map((c, axis) => data.first[axis] + c * data.stride[axis]), 1];
    const along = (row) => data.affine[row].reduce((sum, a, k) => sum + a * there[k], 0);
    return [[2, "SI"], [1, "AP"], [0, "RL"]].map(([row, letters]) => {
      const mm = along(row);
      return `${letters[mm < 0 ? 1 : 0]} ${Math.abs(mm).toFixed(1)}`;
    });
  }
  function point(event) {
    const p = PLANES[plane], box = canvas.getBoundingClientRect();
    const scale = Math.min(box.width / canvas.width, box.height / canvas.height);
    const x = (event.clientX - box.left - (box.width - canvas.width * scale) / 2) / (canvas.width * scale);
    const y = (event.clientY - box.top - (box.height - canvas.height * scale) / 2) / (canvas.height * scale);
    if (x < 0 || y < 0 || x >= 1 || y >= 1) return null;
    const found = [...at], column = Math.floor(x * size[p.across]), row = Math.floor(y * size[p.down]);
    found[p.across] = data.every ? column : size[p.across] - 1 - column;
    found[p.down] = data.every ? row : size[p.down] - 1 - row;
    return found;
  }
  function name_spot(event) {
    const spot = article.querySelector(".spot"), found = data.every || !voxels ? null : point(event);
    if (!found) { spot.textContent = ""; return; }
    const code = voxels[found.reduce((sum, c, axis) => sum + c * strides[axis], 0)];
    const indices = [2, 1, 0].map((axis) => number(axis, found[axis])).join(", ");
    const mm = data.affine ? `; ${millimetres(found).reverse().join(", ")} mm` : "";
    spot.textContent = `${indices}${mm}${data.greys ? `; about ${lights.value(code)}` : ""}`;
  }
  function flip(layer) { layers[layer] = !layers[layer]; show(); }
  function move(by) { at[PLANES[plane].along] += by; show(); }
  function choose(round) { step = Math.min(Math.max(round, 0), data.steps.length - 1); show(); }

  slider.addEventListener("input", () => { at[PLANES[plane].along] = Number(slider.value); show(); });
  for (const button of article.querySelectorAll("[data-slice]")) {
    button.addEventListener("click", () => move(Number(button.dataset.slice)));
  }
  for (const button of article.querySelectorAll("[data-plane]")) {
    button.addEventListener("click", () => { plane = Number(button.dataset.plane); show(); });
  }
  for (const item of steps) {
    const pick = () => choose(Number(item.dataset.round) - 1);
    item.addEventListener("click", pick);
    item.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(); });
  }
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey) return;  // that is zooming
    event.preventDefault();
    move(event.deltaY > 0 ? -1 : 1);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -9999, End: 9999 };
    const turns = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key in moves) move(moves[event.key]);
    else if (event.key in turns) choose(step + turns[event.key]);
    else if ({ g: 1, m: 1, p: 1 }[event.key]) flip({ g: "ground_truth", m: "mask", p: "prompts" }[event.key]);
    else if (PLANES[Number(event.key) - 1]) { plane = Number(event.key) - 1; show(); }
    else return;
    event.preventDefault();
  });
  for (const box of article.querySelectorAll("[data-layer]")) {
    box.addEventListener("change", () => flip(box.dataset.layer));
  }
  const play = article.querySelector("[data-play]");
  let running = 0;
  if (play) play.addEventListener("click", () => {
    running = running ? clearInterval(running) || 0
      : setInterval(() => { at[0] = (at[0] + 1) % size[0]; show(); }, 100);
    play.setAttribute("aria-pressed", String(Boolean(running)));
    play.textContent = running ? "Pause" : "Play";
  });
  /* A press is a click unless it wanders; a drag goes through the slices; two fingers are neither. */
  let held = null, pointer = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = null;
    if (!event.isPrimary && event.pointerType === "touch") return;
    held = { event, x: event.clientX, y: event.clientY, from: at[PLANES[plane].along], window: event.shiftKey && lights.ends() };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    pointer = event;
    if (!held) { name_spot(event); return; }
    held.dragged ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > 6;
    if (!held.dragged) return;
    if (held.window) {  // as in other viewers: across is width, up is level
      lights.drag(held.window, (event.clientX - held.x) / 300, (held.y - event.clientY) / 300);
      return;
    }
    at[PLANES[plane].along] = held.from + Math.round((held.y - event.clientY) / 6);
    show();
  });
  canvas.addEventListener("pointerup", () => {
    const found = held && !held.dragged && point(held.event);
    if (found && onpoint) onpoint(found, held.event);
    held = null;
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { pointer = null; });
  canvas.addEventListener("pointerenter", () => {  // keys work where the wheel does
    if (!document.activeElement?.matches("textarea, input:not([type=range], [type=checkbox])")) canvas.focus({ preventScroll: true });
  });

  Promise.resolve(image.decode?.()).then(() => {
    voxels = stacked(image, size, data.columns);
    article.dataset.ready = "yes";
    show();
  });
  show();
  return {
    canvas,
    /* Show one mask (run lengths inside its box, or none) and prompts. */
    draw(mask, prompts) {
      data.steps = [{ prompts }];
      masks = [mask && placed(mask, size)];
      choose(0);
    },
    fill(on) { layers.fill = on; show(); },
  };
}

/* Window and level: voxels hold codes, whose values the page knows; without values, codes are greys. */
function lightsOf(article, greys, seenPhrase, changed) {
  const shades = Uint8ClampedArray.from({ length: 256 }, (_, code) => code);
  const [level, width, preset] = ["level", "width", "preset"].map((name) => article.querySelector(`[data-${name}]`));
  const seen = article.querySelector(".seen");
  let low = 0, high = 0;
  function valueOf(code) {
    const k = Math.max(1, greys.codes.findIndex((knot) => code <= knot)), [a, b] = [greys.codes[k - 1], greys.codes[k]];
    return greys.values[k - 1] + (greys.values[k] - greys.values[k - 1]) * (code - a) / (b - a);
  }
  function set(one, two) {
    [low, high] = [one, Math.max(two, one + 1e-6)];
    for (let code = 0; code < 256; code++) shades[code] = 255 * (valueOf(code) - low) / (high - low);
    level.value = String((low + high) / 2);
    width.value = String(high - low);
    seen.textContent = phrased(seenPhrase, { low: round(low), high: round(high), unit: greys.unit });
    article.dataset.window = `${round(low)} ${round(high)}`;
    changed();
  }
  function round(value) { return Number(value.toPrecision(4)); }
  if (!greys) return { shades, value: String, ends: () => null, drag: () => {} };
  const [least, first, last, most] = greys.values, range = Math.max(most - least, 1e-6);
  for (const [name, ends] of Object.entries(greys.presets)) preset.append(new Option(name, ends.join()));
  Object.assign(level, { min: least, max: most, step: range / 500 });
  Object.assign(width, { min: range / 500, max: range, step: range / 500 });
  const slid = () => {
    preset.value = "";
    set(Number(level.value) - Number(width.value) / 2, Number(level.value) + Number(width.value) / 2);
  };
  level.addEventListener("input", slid);
  width.addEventListener("input", slid);
  preset.addEventListener("change", () => set(...(preset.value ? preset.value.split(",").map(Number) : [first, last])));
  requestAnimationFrame(() => set(first, last));
  return {
    shades,
    value: (code) => `${round(valueOf(code))} ${greys.unit}`.trim(),
    ends: () => [low, high],
    drag: ([a, b], wider, brighter) => {
      const middle = (a + b) / 2 + brighter * (b - a), half = Math.max((b - a) * (1 + wider), range / 1000) / 2;
      set(middle - half, middle + half);
    },
  };
}

function unpacked(runs, size) {
  const bits = new Uint8Array(size[0] * size[1] * size[2]);
  let place = 0, on = 0;
  for (const length of runs) {
    if (on) bits.fill(1, place, place + length);
    place += length;
    on = 1 - on;
  }
  return bits;
}

/* A mask that comes as run lengths inside its box, in the whole volume. */
function placed({ low, size, runs }, shape) {
  const inside = unpacked(runs, size), whole = new Uint8Array(shape[0] * shape[1] * shape[2]);
  for (let row = 0; row < size[0] * size[1]; row++) {
    const z = low[0] + Math.floor(row / size[1]), y = low[1] + row % size[1];
    whole.set(inside.subarray(row * size[2], (row + 1) * size[2]), (z * shape[1] + y) * shape[2] + low[2]);
  }
  return whole;
}

function stacked(image, size, columns) {
  const [depth, high, wide] = size, canvas = document.createElement("canvas");
  canvas.width = wide;
  canvas.height = high;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const voxels = new Uint8Array(depth * high * wide);
  for (let z = 0; z < depth; z++) {
    pen.drawImage(image, (z % columns) * wide, Math.floor(z / columns) * high, wide, high, 0, 0, wide, high);
    const part = pen.getImageData(0, 0, wide, high).data, start = z * high * wide;
    for (let k = 0; k < high * wide; k++) voxels[start + k] = part[4 * k];
  }
  return voxels;
}

/* Start where most of the object is, along each axis. */
function fullest(bits, size, at) {
  const counts = size.map((n) => new Uint32Array(n));
  for (let z = 0, k = 0; z < size[0]; z++) {
    for (let y = 0; y < size[1]; y++) {
      for (let x = 0; x < size[2]; x++, k++) {
        if (bits[k]) { counts[0][z]++; counts[1][y]++; counts[2][x]++; }
      }
    }
  }
  counts.forEach((own, axis) => {
    const most = own.reduce((best, n) => Math.max(best, n), 0);
    if (most) at[axis] = own.indexOf(most);
  });
}
