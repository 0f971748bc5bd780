"use strict";
// The Gantt chart: rectangles of nodes × time from #gantt-data (unpacked by gantt_rows.js) on a time canvas. All are
// there; while they are drawn, those that no pixel is left for at this zoom are skipped, but never a job that is sought.
(() => {
  function draw(at, run, hues, found) {
    const { pen, view, width, height, left, unit, colour } = at;
    const { start, end, first, nodes, lower, tall, outcome, cut, job } = run;
    const perSecond = (width - left) / (view.to - view.from), edge = colour("--ground");
    const painted = new Float64Array(Math.ceil(height) + 2), marks = [];
    hues.rows.forEach((rows, hue) => {
      if (!rows.length) return;
      painted.fill(-1);
      pen.fillStyle = hues.palette[hue];
      for (const i of rows) {
        if (start[i] > view.to) break; // rows are in order of start
        if (end[i] < view.from || first[i] > view.high || first[i] + nodes[i] < view.low) continue;
        const x = Math.max(left + (start[i] - view.from) * perSecond, left);
        const right = Math.min(left + (end[i] - view.from) * perSecond, width);
        const y = at.y(first[i]), tallness = nodes[i] * unit;
        if (cut[outcome[i]] || found.has(job[i])) marks.push(i);
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
    for (const i of marks) mark(at, run, i, found, edge);
  }

  function mark({ pen, width, left, unit, colour, ...at }, run, i, found, edge) {
    const x = Math.max(at.x(run.start[i]), left), w = Math.max(Math.min(at.x(run.end[i]), width) - x, 2);
    const y = at.y(run.first[i]) + run.lower[i] / 255 * unit, h = Math.max((run.nodes[i] - 1 + run.tall[i] / 255) * unit, 2);
    if (run.cut[run.outcome[i]]) {
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

  function hit(run, time, node, slack) {
    let best = -1;
    for (let i = 0; i < run.rows; i++) {
      if (run.start[i] - slack > time || run.end[i] + slack < time || node < run.first[i] || node >= run.first[i] + run.nodes[i]) continue;
      const part = (node - Math.floor(node)) * 255;
      if (part < run.lower[i] || part > run.lower[i] + run.tall[i]) continue;
      best = i;
      if (run.start[i] <= time && run.end[i] >= time) break;
    }
    return best;
  }

  // When the attempt that a row is part of began and ended: a lease that changed has a row for every span.
  function attemptOf(run, i) {
    let from = run.start[i], to = run.end[i];
    for (let k = 0; k < run.rows; k++) {
      if (run.job[k] !== run.job[i] || run.attempt[k] !== run.attempt[i]) continue;
      from = Math.min(from, run.start[k]);
      to = Math.max(to, run.end[k]);
    }
    return [from, to];
  }

  function tell(run, i, time, words) {
    const job = run.job[i], wait = run.wait[job], last = run.first[i] + run.nodes[i] - 1;
    const user = run.users[run.user[job]], app = run.apps[run.app[job]], [from, to] = attemptOf(run, i);
    const whole = from === run.start[i] && to === run.end[i], outcome = run.outcomes[run.outcome[i]];
    return [
      `job ${run.ids[job]}` + (run.cut[run.outcome[i]] ? ` – ${outcome.replace("-", " ")}` : ""),
      user && `user ${user}`, app && `application ${app}`,
      last > run.first[i] ? `nodes ${run.first[i]}–${last}` : `node ${last}`,
      whole ? "" : `here from ${words(run.start[i])} to ${words(run.end[i])}`,
      `start ${words(from)}`, `end ${words(to)} (ran ${words(to - from)})`,
      Number.isNaN(wait) ? "" : `waited ${words(wait)}`,
    ];
  }

  function missing(run, wanted) {
    const state = Object.keys(run.never).find((name) => run.never[name].includes(wanted));
    if (state) return `job ${wanted} never started (${state})`;
    const { all_jobs: all, kept_jobs: kept, id } = run.info, here = kept + Object.values(run.never).reduce((sum, ids) => sum + ids.length, 0);
    if (here >= all) return `this run has no job ${wanted}`;
    return `job ${wanted} is not among the ${count(here)} of ${count(all)} jobs on this page; unrack explain DIR ${wanted} --run ${id} tells of it`;
  }

  const count = (number) => number.toLocaleString("en");
  function note({ kept, rows, jobs, kept_jobs: known, share }) {
    if (rows === 0) return "No job started in this run.";
    if (kept === rows) return `All ${count(rows)} rectangles of ${count(jobs)} jobs are here (a job on nodes that are not neighbours has several, and so has one whose nodes changed); zoom in to tell small ones apart.`;
    const left = `the ${count(rows - kept)} rectangles left out hold ${((1 - share) * 100).toPrecision(2)} % of the node-time`;
    return known === jobs ? `The run is too large for a page: every job is here with its largest rectangle at least; ${left}.`
      : `The run is too large for a page: the ${count(known)} largest of its ${count(jobs)} jobs are here, with a rectangle each; ${left}. placements.parquet in the folder of the run has all.`;
  }
  timeCanvas("gantt", { left: 52, word: "node", label: (run, node) => node, unpack: ganttRows.unpack, colours: ganttRows.colours, mode: ganttRows.mode, lane: (run, i) => run.first[i], draw, hit, tell, missing, note });
})();
