"use strict";
// The Gantt chart: one canvas, rectangles of nodes × time from #gantt-data (unpacked by gantt_rows.js).
(() => {
  const byId = (id) => document.getElementById(id);
  const runs = JSON.parse(byId("gantt-data").textContent);
  const canvas = byId("gantt-canvas"), pen = canvas.getContext("2d"), tip = byId("gantt-tip");
  const LEFT = 52, BOTTOM = 24;
  const loaded = new Map();
  let run = null, view = null, hues = null, found = new Set(), width = 0, height = 0, pending = false;

  async function load(index) {
    if (!loaded.has(index)) loaded.set(index, await ganttRows.unpack(runs[index]));
    return loaded.get(index);
  }

  function paint(mode) {
    hues = ganttRows.colours(run, mode);
    byId("gantt-legend").replaceChildren(...hues.labels.map(([colour, words]) => {
      const item = document.createElement("span"), chip = document.createElement("i");
      chip.className = "chip";
      chip.style.background = colour;
      item.append(chip, words);
      return item;
    }));
  }

  const everything = () => ({ from: run.info.start, to: run.info.end, low: 0, high: run.info.nodes });
  const xOf = (time) => LEFT + (time - view.from) / (view.to - view.from) * (width - LEFT);
  const yOf = (node) => (node - view.low) / (view.high - view.low) * (height - BOTTOM);
  const timeAt = (x) => view.from + (x - LEFT) / (width - LEFT) * (view.to - view.from);
  const nodeAt = (y) => view.low + y / (height - BOTTOM) * (view.high - view.low);

  function words(seconds) {
    if (Math.abs(seconds) < 60) return `${+seconds.toPrecision(3)} s`;
    const parts = [];
    let rest = Math.round(seconds);
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      const count = Math.floor(rest / size);
      rest -= count * size;
      if (count) parts.push(`${count} ${unit}`);
    }
    return parts.slice(0, 3).join(" ");
  }

  function axes(colour) {
    pen.fillStyle = colour("--ground");
    pen.fillRect(0, 0, LEFT, height);
    pen.fillRect(0, height - BOTTOM, width, BOTTOM);
    pen.fillStyle = colour("--soft");
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const step = niceStep((view.high - view.low) / 8, [1, 2, 5]);
    for (let node = Math.ceil(view.low / step) * step; node < view.high; node += step) pen.fillText(node, LEFT - 6, Math.max(Math.min(yOf(node + .5), height - BOTTOM - 6), 7));
    pen.save();
    pen.translate(9, (height - BOTTOM) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText("node", 0, 0);
    pen.restore();
    const sizes = [.001, .01, .1, 1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 91 * 86400, 364 * 86400];
    const wanted = (view.to - view.from) * 90 / (width - LEFT);
    const size = sizes.find((value) => value >= wanted) ?? 3640 * 86400;
    for (let time = Math.ceil(view.from / size) * size; time <= view.to; time += size) {
      const x = xOf(time), text = time === 0 ? "0" : words(time);
      pen.textAlign = x > width - 40 ? "right" : x < LEFT + 30 ? "left" : "center";
      pen.fillRect(Math.round(x), height - BOTTOM, 1, 4);
      pen.fillText(text, x, height - BOTTOM + 14);
    }
  }

  function niceStep(least, steps) {
    let power = 1;
    for (;;) {
      for (const step of steps) if (step * power >= least) return step * power;
      power *= 10;
    }
  }

  function draw() {
    pending = false;
    if (!run) return;
    const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colour("--ground");
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = colour("--idle");
    pen.fillRect(LEFT, yOf(0), width - LEFT, yOf(run.info.nodes) - yOf(0));
    const { start, end, first, nodes, lower, tall, outcome, job } = run;
    const unit = yOf(1) - yOf(0), perSecond = (width - LEFT) / (view.to - view.from), edge = colour("--ground");
    const painted = new Float64Array(Math.ceil(height) + 2), marks = [];
    hues.rows.forEach((rows, hue) => {
      if (!rows.length) return;
      painted.fill(-1);
      pen.fillStyle = hues.palette[hue];
      for (const i of rows) {
        if (end[i] < view.from || start[i] > view.to || first[i] > view.high || first[i] + nodes[i] < view.low) continue;
        const x = Math.max(LEFT + (start[i] - view.from) * perSecond, LEFT);
        const right = Math.min(LEFT + (end[i] - view.from) * perSecond, width);
        const y = yOf(first[i]), tallness = nodes[i] * unit;
        if (outcome[i] || found.has(job[i])) marks.push(i);
        if (right - x < 1) { // narrower than a pixel: those that start in a pixel already painted here are skipped
          const row = Math.min(Math.max(Math.round(y), 0), painted.length - 1), key = Math.floor(x) * 4096 + Math.min(Math.ceil(tallness), 4095);
          if (painted[row] === key) continue;
          painted[row] = key;
        }
        pen.globalAlpha = found.size && !found.has(job[i]) ? .25 : 1;
        const gap = right - x > 4 ? .5 : 0;
        if (tall[i] === 255) pen.fillRect(x, y, Math.max(right - x - gap, .7), Math.max(tallness - (unit > 4 ? 1 : 0), .7));
        else if (unit < 3) {
          pen.globalAlpha *= Math.max(tall[i] / 255, .15);
          pen.fillRect(x, y, Math.max(right - x - gap, .7), Math.max(tallness, .7));
        } else for (let k = 0; k < nodes[i]; k++) pen.fillRect(x, y + (k + lower[i] / 255) * unit, Math.max(right - x - gap, .7), Math.max(tall[i] / 255 * unit - .5, .7));
      }
    });
    pen.globalAlpha = 1;
    for (const i of marks) mark(i, unit, colour, edge);
    axes(colour);
  }

  function mark(i, unit, colour, edge) {
    const x = Math.max(xOf(run.start[i]), LEFT), w = Math.max(Math.min(xOf(run.end[i]), width) - x, 2);
    const y = yOf(run.first[i]) + run.lower[i] / 255 * unit, h = Math.max((run.nodes[i] - 1 + run.tall[i] / 255) * unit, 2);
    if (run.outcome[i]) {
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      pen.fillStyle = edge;
      pen.fillRect(x, y, w, h);
      pen.strokeStyle = colour("--mark");
      pen.lineWidth = 2;
      pen.beginPath();
      for (let k = x - h; k < x + w; k += 6) { pen.moveTo(k, y + h); pen.lineTo(k + h, y); }
      pen.rect(x, y, w, h);
      pen.stroke();
      pen.restore();
    }
    if (found.has(run.job[i])) {
      pen.strokeStyle = colour("--text");
      pen.lineWidth = 2;
      pen.strokeRect(x, y, w, h);
    }
  }

  function redraw() {
    if (!pending) { pending = true; requestAnimationFrame(draw); }
  }

  // The view stays within the run, keeps its size when moved, and cannot get smaller than a tick or a node.
  function look(next) {
    const all = everything();
    const time = Math.min(Math.max(next.to - next.from, run.tick), all.to - all.from), nodes = Math.min(Math.max(next.high - next.low, 1), all.high);
    const from = Math.min(Math.max(next.from, all.from), all.to - time), low = Math.min(Math.max(next.low, 0), all.high - nodes);
    view = { from, to: from + time, low, high: low + nodes };
    canvas.dataset.view = JSON.stringify(view);
    redraw();
  }
  const zoomTime = (factor, time = (view.from + view.to) / 2) => look({ ...view, from: time - (time - view.from) * factor, to: time + (view.to - time) * factor });
  const zoomNodes = (factor, node = (view.low + view.high) / 2) => look({ ...view, low: node - (node - view.low) * factor, high: node + (view.high - node) * factor });
  function move(time, nodes) {
    const t = time * (view.to - view.from), n = nodes * (view.high - view.low);
    look({ from: view.from + t, to: view.to + t, low: view.low + n, high: view.high + n });
  }

  function find() {
    const wanted = byId("gantt-find").value.trim();
    found = new Set(wanted === "" ? [] : run.ids.flatMap((id, job) => id === wanted ? [job] : []));
    const rows = [...run.job.keys()].filter((i) => found.has(run.job[i]));
    byId("gantt-found").textContent = wanted === "" ? "" : rows.length ? `job ${wanted}: ${words(run.start[rows[0]])} to ${words(run.end[rows[rows.length - 1]])}` : `no job ${wanted} here`;
    if (rows.length) {
      const from = run.start[rows[0]], to = run.end[rows[rows.length - 1]], spare = Math.max((to - from) * 2, (run.info.end - run.info.start) / 200);
      look({ ...view, from: from - spare, to: to + spare });
    } else redraw();
  }

  function hover(event) {
    const time = timeAt(event.offsetX), node = nodeAt(event.offsetY), slack = (view.to - view.from) / width;
    let hit = -1;
    for (let i = 0; i < run.rows && event.offsetX > LEFT; i++) {
      if (run.start[i] - slack > time || run.end[i] + slack < time || node < run.first[i] || node >= run.first[i] + run.nodes[i]) continue;
      const part = (node - Math.floor(node)) * 255;
      if (part < run.lower[i] || part > run.lower[i] + run.tall[i]) continue;
      hit = i;
      if (run.start[i] <= time && run.end[i] >= time) break;
    }
    tip.hidden = hit < 0;
    if (hit < 0) return;
    const job = run.job[hit], wait = run.wait[job], last = run.first[hit] + run.nodes[hit] - 1;
    const app = run.apps[run.app[job]];
    tip.textContent = [
      `job ${run.ids[job]}` + (run.outcome[hit] ? ["", " – node failed", " – preempted"][run.outcome[hit]] : ""),
      run.users[run.user[job]] && `user ${run.users[run.user[job]]}`, app && `application ${app}`,
      last > run.first[hit] ? `nodes ${run.first[hit]}–${last}` : `node ${last}`,
      `start ${words(run.start[hit])}`, `end ${words(run.end[hit])} (ran ${words(run.end[hit] - run.start[hit])})`,
      Number.isNaN(wait) ? "" : `waited ${words(wait)}`,
    ].filter(Boolean).join("\n");
    tip.style.left = `${Math.max(Math.min(event.offsetX + 14, width - tip.offsetWidth - 4), 0)}px`;
    tip.style.top = `${Math.min(event.offsetY + 14, height - tip.offsetHeight - 4)}px`;
  }

  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.offsetX, y: event.offsetY, view }; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); });
  canvas.addEventListener("pointerup", () => { held = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("pointercancel", () => { held = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointermove", (event) => {
    if (!run) return;
    if (!held) return hover(event);
    tip.hidden = true;
    const time = (held.x - event.offsetX) / (width - LEFT) * (view.to - view.from), nodes = (held.y - event.offsetY) / (height - BOTTOM) * (view.high - view.low);
    look({ from: held.view.from + time, to: held.view.to + time, low: held.view.low + nodes, high: held.view.high + nodes });
  });
  canvas.addEventListener("wheel", (event) => {
    if (!run) return;
    const turn = event.deltaY || event.deltaX, factor = Math.exp(Math.max(Math.min(turn, 200), -200) * .003), all = everything();
    if (event.shiftKey) zoomNodes(factor, nodeAt(event.offsetY));
    else if (factor > 1 && view.to - view.from >= all.to - all.from) return; // nothing to zoom out of: the page scrolls
    else zoomTime(factor, timeAt(event.offsetX));
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => run && look(everything()));
  const keys = { "+": () => zoomTime(.7), "=": () => zoomTime(.7), "-": () => zoomTime(1 / .7), ArrowLeft: () => move(-.15, 0), ArrowRight: () => move(.15, 0),
    ArrowUp: () => move(0, -.15), ArrowDown: () => move(0, .15), 0: () => look(everything()) };
  canvas.addEventListener("keydown", (event) => {
    if (!run || !keys[event.key] || event.ctrlKey || event.metaKey) return;
    keys[event.key]();
    event.preventDefault();
  });
  byId("gantt-in").addEventListener("click", () => zoomTime(.5));
  byId("gantt-out").addEventListener("click", () => zoomTime(2));
  byId("gantt-reset").addEventListener("click", () => look(everything()));
  byId("gantt-find").addEventListener("input", find);
  byId("gantt-colour").addEventListener("change", () => { paint(byId("gantt-colour").value); redraw(); });
  byId("gantt-run").addEventListener("change", () => show(Number(byId("gantt-run").value)));

  async function show(index) {
    const before = run && view;
    const next = await load(index);
    if (index !== Number(byId("gantt-run").value)) return; // another was chosen meanwhile
    run = next;
    paint(byId("gantt-colour").value);
    const { kept, rows, share } = run.info;
    byId("gantt-note").textContent = rows === 0 ? "No job started in this run."
      : kept === rows ? `All ${rows.toLocaleString("en")} rectangles are drawn (a job on nodes that are not neighbours has several).`
      : `The ${kept.toLocaleString("en")} largest of ${rows.toLocaleString("en")} rectangles are drawn; the ${(rows - kept).toLocaleString("en")} left out hold ${((1 - share) * 100).toPrecision(2)} % of the node-time.`;
    look(before ?? everything());
    if (byId("gantt-find").value) find();
    canvas.dataset.run = index;
  }
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  if (runs.length) show(0);
})();
