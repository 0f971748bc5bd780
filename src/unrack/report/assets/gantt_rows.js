"use strict";
// The rectangles of a Gantt chart: unpacked (the packing is described in gantt.py) and coloured.
const ganttRows = (() => {
  const HUES = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE8866", "#44AA99", "#999933", "#882255", "#8FA3B7"];
  const OTHER = HUES.length - 1;
  const WAITS = [[0, "none"], [60, "< 1 min"], [600, "< 10 min"], [3600, "< 1 h"], [21600, "< 6 h"], [86400, "< 1 d"], [Infinity, "longer"]];
  const WAIT_HUES = ["#BFD3C1", "#7FC8A9", "#3FA7A0", "#3B7EA1", "#5B5EA6", "#8E3B8E", "#C2185B", "#8FA3B7"];

  const UNFINISHED = ["node-failed", "preempted", "cut"];

  async function unpack(info) {
    const { head, take } = await timeCanvas.open(info.data);
    const n = head.rows, m = head.jobs;
    const gap = take(Uint32Array, n), length = take(Uint32Array, n);
    const first = take(Uint32Array, n), nodes = take(Uint32Array, n), job = timeCanvas.unstepped(take(Uint32Array, n));
    const wait = take(Float32Array, m), user = take(Uint32Array, m), app = take(Uint32Array, m);
    const ids = head.ids || Array.from(timeCanvas.unstepped(take(Uint32Array, m)), String);
    const lower = take(Uint8Array, n), tall = take(Uint8Array, n), outcome = take(Uint8Array, n), attempt = take(Uint8Array, n);
    const { start, end } = timeCanvas.times(gap, length, info.start, head.tick);
    const cut = head.outcomes.map((words) => UNFINISHED.includes(words));
    return { info, lanes: info.nodes, ...head, ids, start, end, first, nodes, job, wait, user, app, lower, tall, outcome, attempt, cut };
  }

  // Colours: each job gets a place in a palette; rectangles are grouped by it so that the pen changes colour rarely.
  function colours(run, mode) {
    const place = new Uint8Array(run.jobs), labels = [];
    if (mode === "wait") {
      run.wait.forEach((wait, job) => { place[job] = Number.isNaN(wait) ? 7 : WAITS.findIndex(([most]) => wait <= 0 ? most === 0 : wait < most); });
      WAITS.forEach(([, words], index) => labels.push([WAIT_HUES[index], words]));
    } else if (mode === "job") {
      for (let job = 0; job < run.jobs; job++) place[job] = (Math.imul(job + 1, 2654435761) >>> 8) % OTHER;
    } else {
      const codes = run[mode], names = run[mode + "s"], total = new Float64Array(names.length);
      for (let i = 0; i < run.rows; i++) total[codes[run.job[i]]] += (run.end[i] - run.start[i]) * run.nodes[i];
      const order = [...total.keys()].filter((code) => names[code] !== "").sort((a, b) => total[b] - total[a] || a - b).slice(0, OTHER);
      const hue = new Uint8Array(names.length).fill(OTHER);
      order.forEach((code, index) => { hue[code] = index; labels.push([HUES[index], names[code]]); });
      codes.forEach((code, job) => { place[job] = hue[code]; });
      if (names.length > order.length) labels.push([HUES[OTHER], order.length ? "all others" : "not known"]);
    }
    const rows = Array.from({ length: 12 }, () => []);
    for (let i = 0; i < run.rows; i++) rows[place[run.job[i]]].push(i);
    return { palette: mode === "wait" ? WAIT_HUES : HUES, rows, labels };
  }

  // The first that says something: by user or application where there are two of these, else by job.
  const mode = (run) => ["user", "app"].find((one) => run[one + "s"].length > 1) || "job";

  return { unpack, colours, mode };
})();
