// The stage: shows screens for exact times and maps a pointer to pixels of the image.

const frame = () => new Promise((done) => requestAnimationFrame(done));

// A view that can be zoomed and moved: its scale, and the corner in shares of its frame.
export class Zoomed {
  constructor(frame, redraw) {
    Object.assign(this, { frame, redraw, scale: 1, corner: [0, 0] });
  }

  // Zoom by a factor around a point of the page; never smaller than the frame.
  zoom(factor, x, y) {
    const box = this.frame.getBoundingClientRect();
    const before = this.scale;
    this.scale = Math.min(16, Math.max(1, this.scale * factor));
    const at = [(x - box.left) / box.width, (y - box.top) / box.height];
    this.corner = this.corner.map((corner, axis) => at[axis] - (at[axis] - corner) * this.scale / before);
    this.move(0, 0);
  }

  // Move by pixels of the page; the edges stay outside.
  move(x, y) {
    const box = this.frame.getBoundingClientRect();
    const place = [this.corner[0] + x / box.width, this.corner[1] + y / box.height];
    this.corner = place.map((value) => Math.min(0, Math.max(1 - this.scale, value)));
    this.redraw();
  }
}

export class Stage extends Zoomed {
  constructor() {
    super(document.getElementById("canvas"), () => this.repaint());
    this.section = document.getElementById("stage");
    this.place = document.getElementById("place");
    this.canvas = this.frame;
    this.told = document.getElementById("told");
    this.context = this.canvas.getContext("2d");
    this.size = [1, 1];
    this.now = null;
    this.lost = false;
    // The place changes with the window, and when the line above it wraps.
    new ResizeObserver(() => { if (!this.section.hidden) { this.fit(); this.redraw(); } }).observe(this.place);
    addEventListener("resize", () => { this.fit(); this.redraw(); });
    addEventListener("blur", () => { this.lost = true; });
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.lost = true; });
  }

  // The largest size that fits, in CSS pixels; the canvas itself has device pixels.
  fit() {
    const [width, height] = this.size;
    const box = this.place.getBoundingClientRect();
    const scale = Math.max(0.01, Math.min(box.width / width, box.height / height));
    this.canvas.style.width = `${width * scale}px`;
    this.canvas.style.height = `${height * scale}px`;
    this.canvas.width = Math.max(1, Math.round(width * scale * devicePixelRatio));
    this.canvas.height = Math.max(1, Math.round(height * scale * devicePixelRatio));
  }

  show(width, height) {
    this.size = [width, height];
    this.scale = 1;
    this.corner = [0, 0];
    this.fit();
  }

  draw(screen) {
    this.now = screen;
    this.redraw();
  }

  repaint() {
    const screen = this.now;
    const { width, height } = this.canvas;
    this.context.clearRect(0, 0, width, height);
    const told = screen !== null && screen.text !== undefined;
    this.told.hidden = !told;
    this.told.textContent = told ? screen.text : "";
    this.context.save();
    this.context.translate(this.corner[0] * width, this.corner[1] * height);
    if (screen !== null && screen.bitmap) {
      this.context.imageSmoothingEnabled = this.scale < 4;
      this.context.imageSmoothingQuality = "high";
      this.context.drawImage(screen.bitmap, 0, 0, width * this.scale, height * this.scale);
    }
    if (screen?.over) screen.over(this.context, this.scale * width / this.size[0], this.scale * height / this.size[1]);
    this.context.restore();
  }

  // Where a pointer is, in pixels of the image: (0, 0) is the corner of its first pixel.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width;
    const down = (event.clientY - box.top) / box.height;
    return {
      x: ((across - this.corner[0]) / this.scale) * this.size[0],
      y: ((down - this.corner[1]) / this.scale) * this.size[1],
      shown: [box.width * this.scale, box.height * this.scale],
    };
  }

  // Shows all screens but the last for their times, then the last; returns the true times.
  async play(screens) {
    const times = [];
    let since = await frame();
    this.draw(screens[0]);
    let last = since;
    for (let k = 0; k + 1 < screens.length; k += 1) {
      const planned = 1000 * screens[k].seconds;
      let step = 8;
      let now = since;
      do {
        now = await frame();
        step = Math.min(40, Math.max(4, now - last));
        last = now;
      } while (now - since < planned - step / 2);
      this.draw(screens[k + 1]);
      times.push({ planned_ms: planned, true_ms: now - since });
      since = now;
    }
    return { times, since };
  }

  // One tap or click on the canvas: pressed and released without wandering off.
  press(blocked) {
    return new Promise((done) => {
      let down = null;
      const stop = new AbortController();
      const options = { signal: stop.signal };
      this.canvas.addEventListener("contextmenu", (event) => event.preventDefault(), options);
      this.canvas.addEventListener("pointerdown", (event) => {
        down = event.isPrimary && !blocked?.(event) ? event : null;
      }, options);
      this.canvas.addEventListener("pointerup", (event) => {
        const far = down === null || Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 12;
        if (far || event.pointerId !== down.pointerId || blocked?.(event)) return;
        stop.abort();
        done(down);
      }, options);
    });
  }
}

export function dot(x, y, radius, colour = "#ffffff") {
  return (context, across, down) => {
    context.beginPath();
    context.arc(x * across, y * down, Math.max(3, radius * across), 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
    context.lineWidth = Math.max(2, 0.35 * radius * across);
    context.strokeStyle = "#1b1d1f";
    context.stroke();
  };
}
