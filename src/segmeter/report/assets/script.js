"use strict";
document.documentElement.classList.add("js");

/* Replays: one number, the round, decides what is shown. */
function startReplay(article) {
  const last = Number(article.dataset.last);
  const slider = article.querySelector("input[type=range]");
  const play = article.querySelector("[data-play]");
  const now = article.querySelector(".now");
  const rounds = article.querySelectorAll("[data-round]");
  let timer = 0;

  function show(round) {
    const k = Math.min(Math.max(round, 1), last);
    slider.value = String(k);
    article.dataset.now = String(k);
    for (const part of rounds) {
      const own = Number(part.dataset.round);
      part.classList.toggle("on", own === k);
      part.classList.toggle("past", own < k);
      part.classList.toggle("later", own > k);
    }
    const step = article.querySelector(`.steps [data-round="${k}"]`);
    now.textContent = `Round ${k} of ${last}: ${step.innerText.replace(/\s+/g, " ")}`;
    const list = step.parentElement;
    list.scrollTop = step.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
  function current() { return Number(article.dataset.now); }
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }
  function toggle() {
    if (timer) { stop(); return; }
    if (current() >= last) show(1);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      if (current() >= last) { stop(); } else { show(current() + 1); }
    }, 900);
  }

  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  play.addEventListener("click", toggle);
  for (const button of article.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => { stop(); show(current() + Number(button.dataset.step)); });
  }
  for (const part of article.querySelectorAll(".steps li, .beat")) {
    part.addEventListener("click", () => { stop(); show(Number(part.dataset.round)); });
  }
  article.tabIndex = -1;
  article.addEventListener("keydown", (event) => {
    if (event.target === slider) return;  // a slider has its own keys
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last };
    if (event.key in moves) {
      stop();
      show(current() + moves[event.key]);
      event.preventDefault();
    }
  });
  show(last);
}

function startChooser(group) {
  const select = group.querySelector("select");
  const articles = [...group.querySelectorAll(".replay")];
  function choose(key) {
    for (const article of articles) article.hidden = article.id !== key;
    if (select) select.value = key;
  }
  if (select) select.addEventListener("change", () => choose(select.value));
  function follow() {
    const wanted = articles.find((a) => "#" + a.id === decodeURIComponent(location.hash));
    if (wanted) {
      choose(wanted.id);
      wanted.scrollIntoView({ block: "center" });
      wanted.querySelector("input").focus({ preventScroll: true });
    }
  }
  if (articles.length) choose(articles[0].id);
  addEventListener("hashchange", follow);
  follow();
}

/* Volumes: plane, slice and step decide what is cut out of the voxels and drawn. */
const CUTS = [
  { name: "Axial", across: 2, down: 1, along: 0, edges: ["R", "L", "A", "P"] },
  { name: "Coronal", across: 2, down: 0, along: 1, edges: ["R", "L", "S", "I"] },
  { name: "Sagittal", across: 1, down: 0, along: 2, edges: ["A", "P", "S", "I"] },
];

/* A video has one plane, seen as it is. */
const FRAMES = [{ name: "Frame", across: 2, down: 1, along: 0, edges: [] }];

function startSlices(article) {
  const data = JSON.parse(article.dataset.volume);
  const PLANES = data.every ? FRAMES : CUTS;
  const image = document.getElementById(article.dataset.image);
  const canvas = article.querySelector("canvas");
  const slider = article.querySelector("input[type=range]");
  const where = article.querySelector(".where");
  const layers = { ground_truth: true, mask: true, prompts: true };
  const lights = lightsOf(article, data.greys, () => show());
  const steps = [...article.querySelectorAll(".steps li")];
  const size = data.shape, strides = [size[1] * size[2], size[2], 1];
  const ground_truth = data.ground_truth && unpacked(data.ground_truth, size);
  const masks = data.steps.map((step) => unpacked(step.mask, size));
  const at = size.map((n) => n >> 1);
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
    if (masks[step] && layers.mask) trace(pen, masks[step], p, sx, sy, "#5db2ff", [], "rgb(47 143 224 / .28)");
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
    where.textContent = data.every ? `Frame ${own * data.every} (${at[0] + 1} of ${n} shown)`
      : `${p.name} slice, ${number(p.along, at[p.along])} in the file${data.affine ? `, ${millimetres(middle)[p.along]} mm` : ""} (${at[p.along] + 1} of ${n} shown)`;
    for (const box of article.querySelectorAll("[data-layer]")) box.checked = layers[box.dataset.layer];
    for (const button of article.querySelectorAll("[data-plane]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.plane) === plane));
    }
    for (const item of steps) item.classList.toggle("on", Number(item.dataset.round) === step + 1);
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
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, from: at[PLANES[plane].along], window: event.shiftKey && lights.ends() };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { name_spot(event); return; }
    if (held.window) {  // as in other viewers: across is width, up is level
      lights.drag(held.window, (event.clientX - held.x) / 300, (held.y - event.clientY) / 300);
      return;
    }
    at[PLANES[plane].along] = held.from + Math.round((held.y - event.clientY) / 6);
    show();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });

  image.decode().then(() => {
    voxels = stacked(image, size, data.columns);
    article.dataset.ready = "yes";
    show();
  });
  show();
}

/* Window and level: voxels hold codes, whose values the page knows; without values, codes are greys. */
function lightsOf(article, greys, changed) {
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
    seen.textContent = `Shown from ${round(low)} to ${round(high)} ${greys.unit}`.trim();
    article.dataset.window = `${round(low)} ${round(high)}`;
    changed();
  }
  function round(value) { return Number(value.toPrecision(4)); }
  if (!greys) return { shades, value: String, ends: () => null, drag: () => {} };
  const [least, first, last, most] = greys.values, range = Math.max(most - least, 1e-6);
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

/* Tables: a click on a heading sorts, a second one turns the order. */
function startTable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const title = head.querySelector(".title");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], down));
      body.append(...rows);
    });
  });
}

function compare(a, b, down) {
  const one = a.dataset.order, two = b.dataset.order;
  if (one === "" || two === "") return (one === "") - (two === "");
  const numeric = a.classList.contains("num");
  const order = numeric ? Number(one) - Number(two) : one.localeCompare(two, "en", { numeric: true });
  return down ? -order : order;
}

/* Charts: one stop for the Tab key; arrows walk along the x axis. */
function startProbes(group) {
  const probes = [...group.children];
  probes[0].setAttribute("tabindex", "0");
  group.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const at = probes.indexOf(document.activeElement);
    if (!step || at < 0) return;
    const next = probes[at + step];
    if (next) {
      probes[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    }
    event.preventDefault();
  });
}

document.querySelectorAll(".replay:not(.slices)").forEach(startReplay);
document.querySelectorAll(".slices").forEach(startSlices);
document.querySelectorAll(".replays").forEach(startChooser);
document.querySelectorAll("table.sortable").forEach(startTable);
document.querySelectorAll(".probes").forEach(startProbes);

/* One section at a time, where the page says that they are to be chosen from. */
function startChoice(choice) {
  const show = () => {
    const chosen = choice.querySelector("input:checked").value;
    document.querySelectorAll("main > section").forEach((section) => {
      section.classList.toggle("unchosen", section.id !== chosen);
    });
  };
  choice.hidden = false;
  choice.addEventListener("change", show);
  show();
}
document.querySelectorAll(".choose").forEach(startChoice);

/* A link into a folded section opens it; paper shows everything. */
function unfold() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = place && (place.querySelector(":scope > details") || place.closest("details"));
  if (fold) fold.open = true;
}
addEventListener("hashchange", unfold);
unfold();
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
});
