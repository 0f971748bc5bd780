"use strict";
// A canvas of lanes × time with zoom, drag, a tooltip, a search for jobs, a choice of run and of colours. What a scene
// looks like comes from the caller: timeCanvas(prefix, art), where prefix names the page's elements and art has
//   left, word      width of the margin (px); what the vertical axis is called
//   unpack(info)    → a promise of a scene { info, lanes, tick, rows, ids, job, start, end, … }: rows in order of start
//   colours(scene, mode) → { palette, labels: [[colour, words]], … }
//   mode(scene)     → the colours to begin with (optional)
//   label(scene, lane)   → the words beside a lane
//   draw(at, scene, hues, found, pointed)   within the clipped plot; at = { pen, view, width, height, left, x, y, unit, colour }
//   hit(scene, time, lane, slack)      → what lies there, or -1
//   tell(scene, hit, time, words)      → the lines of the tooltip
//   pointed(scene, hit)                → what to outline under the pointer, if anything (optional)
//   lane(scene, row)      → the first lane of a row
//   missing(scene, id)    → what to say of a job that is not in the scene
//   note(info)      → a sentence about what is left out
const timeCanvas = (prefix, art) => {
  const byId = (id) => document.getElementById(`${prefix}-${id}`);
  const runs = JSON.parse(byId("data").textContent);
  const canvas = byId("canvas"), pen = canvas.getContext("2d"), tip = byId("tip");
  const LEFT = art.left, BOTTOM = 24;
  const loaded = new Map();
  let run = null, view = null, hues = null, found = new Set(), width = 0, height = 0, pending = false, pointed = null;

  async function load(index) {
    if (!loaded.has(index)) loaded.set(index, await art.unpack(runs[index]));
    return loaded.get(index);
  }

  function paint(mode) {
    hues = art.colours(run, mode);
    byId("legend").replaceChildren(...hues.labels.map(([colour, words]) => {
      const item = document.createElement("span"), chip = document.createElement("i");
      chip.className = "chip";
      chip.style.background = colour;
      item.append(chip, words);
      return item;
    }));
  }

  const everything = () => ({ from: run.info.start, to: run.info.end, low: 0, high: run.lanes });
  const xOf = (time) => LEFT + (time - view.from) / (view.to - view.from) * (width - LEFT);
  const yOf = (lane) => (lane - view.low) / (view.high - view.low) * (height - BOTTOM);
  const timeAt = (x) => view.from + (x - LEFT) / (width - LEFT) * (view.to - view.from);
  const laneAt = (y) => view.low + y / (height - BOTTOM) * (view.high - view.low);

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
    const step = niceStep((view.high - view.low) / (height - BOTTOM) * (art.every ?? 54), [1, 2, 5]);
    for (let lane = Math.ceil(view.low / step) * step; lane < view.high; lane += step) pen.fillText(art.label(run, lane), LEFT - 6, Math.max(Math.min(yOf(lane + .5), height - BOTTOM - 6), 7));
    pen.save();
    pen.translate(9, (height - BOTTOM) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(art.word, 0, 0);
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
    pen.fillRect(LEFT, yOf(0), width - LEFT, yOf(run.lanes) - yOf(0));
    art.draw({ pen, view, width, height, left: LEFT, x: xOf, y: yOf, unit: yOf(1) - yOf(0), colour }, run, hues, found, pointed);
    pen.globalAlpha = 1;
    axes(colour);
  }

  function redraw() {
    if (!pending) { pending = true; requestAnimationFrame(draw); }
  }

  // The view stays within the run, keeps its size when moved, and cannot get smaller than a tick or a lane.
  function look(next) {
    const all = everything();
    const time = Math.min(Math.max(next.to - next.from, run.tick), all.to - all.from), lanes = Math.min(Math.max(next.high - next.low, 1), all.high);
    const from = Math.min(Math.max(next.from, all.from), all.to - time), low = Math.min(Math.max(next.low, 0), all.high - lanes);
    view = { from, to: from + time, low, high: low + lanes };
    canvas.dataset.view = JSON.stringify(view);
    redraw();
  }
  const zoomTime = (factor, time = (view.from + view.to) / 2) => look({ ...view, from: time - (time - view.from) * factor, to: time + (view.to - time) * factor });
  const zoomLanes = (factor, lane = (view.low + view.high) / 2) => look({ ...view, low: lane - (lane - view.low) * factor, high: lane + (view.high - lane) * factor });
  function move(time, lanes) {
    const t = time * (view.to - view.from), n = lanes * (view.high - view.low);
    look({ from: view.from + t, to: view.to + t, low: view.low + n, high: view.high + n });
  }

  function find() {
    const wanted = byId("find").value.trim();
    found = new Set(wanted === "" ? [] : run.ids.flatMap((id, job) => id === wanted ? [job] : []));
    const rows = found.size ? [...run.job.keys()].filter((i) => found.has(run.job[i])) : [];
    const from = rows.reduce((first, i) => Math.min(first, run.start[i]), Infinity), to = rows.reduce((last, i) => Math.max(last, run.end[i]), -Infinity);
    byId("found").textContent = wanted === "" ? "" : rows.length ? `job ${wanted}: ${words(from)} to ${words(to)}` : art.missing(run, wanted);
    if (rows.length) {
      const spare = Math.max((to - from) * 2, (run.info.end - run.info.start) / 200), lane = art.lane(run, rows[0]), half = (view.high - view.low) / 2;
      const seen = rows.some((i) => art.lane(run, i) >= view.low && art.lane(run, i) < view.high);
      look({ from: from - spare, to: to + spare, low: seen ? view.low : lane - half, high: seen ? view.high : lane + half });
    } else redraw();
  }

  function point(hit) {
    const next = art.pointed && hit >= 0 ? art.pointed(run, hit) : null;
    if (next !== pointed) { pointed = next; redraw(); }
  }

  function hover(event) {
    const time = timeAt(event.offsetX), lane = laneAt(event.offsetY), slack = (view.to - view.from) / width;
    const hit = event.offsetX > LEFT ? art.hit(run, time, lane, slack) : -1;
    tip.hidden = hit < 0;
    point(hit);
    if (hit < 0) return;
    tip.textContent = art.tell(run, hit, time, words).filter(Boolean).join("\n");
    tip.style.left = `${Math.max(Math.min(event.offsetX + 14, width - tip.offsetWidth - 4), 0)}px`;
    tip.style.top = `${Math.min(event.offsetY + 14, height - tip.offsetHeight - 4)}px`;
  }

  let held = null;
  const release = () => { held = null; canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.offsetX, y: event.offsetY, view }; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); });
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; point(-1); });
  canvas.addEventListener("pointermove", (event) => {
    if (!run) return;
    if (!held) return hover(event);
    tip.hidden = true;
    const time = (held.x - event.offsetX) / (width - LEFT) * (view.to - view.from), lanes = (held.y - event.offsetY) / (height - BOTTOM) * (view.high - view.low);
    look({ from: held.view.from + time, to: held.view.to + time, low: held.view.low + lanes, high: held.view.high + lanes });
  });
  canvas.addEventListener("wheel", (event) => {
    if (!run) return;
    const turn = event.deltaY || event.deltaX, factor = Math.exp(Math.max(Math.min(turn, 200), -200) * .003), all = everything();
    if (event.shiftKey) zoomLanes(factor, laneAt(event.offsetY));
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
  byId("in").addEventListener("click", () => zoomTime(.5));
  byId("out").addEventListener("click", () => zoomTime(2));
  byId("reset").addEventListener("click", () => look(everything()));
  byId("find").addEventListener("input", find);
  byId("colour").addEventListener("change", () => { paint(byId("colour").value); redraw(); });
  byId("run").addEventListener("change", () => show(Number(byId("run").value)));

  async function show(index) {
    const next = await load(index);
    if (index !== Number(byId("run").value)) return; // another was chosen meanwhile
    // What was zoomed in on stays in view, to be compared; who saw a whole run sees the whole of the next.
    const whole = run && everything(), before = run && Object.keys(whole).some((edge) => whole[edge] !== view[edge]) ? view : null;
    if (!run && art.mode) byId("colour").value = art.mode(next);
    run = next;
    pointed = null;
    paint(byId("colour").value);
    byId("note").textContent = art.note(run.info);
    look(before ?? everything());
    if (byId("find").value) find();
    canvas.dataset.run = index;
  }
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  if (runs.length) show(0);
};

// The bytes of a packed scene: the header, and a function that takes its columns one after the other.
timeCanvas.open = async (data) => {
  const packed = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  let at = 4 + size;
  const take = (Kind, count) => { // a column in planes of bytes, the lowest first
    const column = new Kind(count), own = new Uint8Array(column.buffer), wide = Kind.BYTES_PER_ELEMENT;
    for (let plane = 0; plane < wide; plane++) for (let i = plane; i < own.length; i += wide) own[i] = bytes[at++];
    return column;
  };
  return { head, take };
};
timeCanvas.unstepped = (steps) => { // differences with the sign in the lowest bit, summed up
  const values = new Uint32Array(steps.length);
  for (let i = 0, sum = 0; i < steps.length; i++) values[i] = sum += (steps[i] >>> 1) ^ -(steps[i] & 1);
  return values;
};
timeCanvas.times = (gap, length, origin, tick) => {
  const start = new Float64Array(gap.length), end = new Float64Array(gap.length);
  for (let i = 0, ticks = 0; i < gap.length; i++) {
    ticks += gap[i];
    start[i] = origin + ticks * tick;
    end[i] = start[i] + length[i] * tick;
  }
  return { start, end };
};
