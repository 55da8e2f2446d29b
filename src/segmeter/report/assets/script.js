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
  show(Number(article.dataset.open));
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
