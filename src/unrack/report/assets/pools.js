"use strict";
// Pool occupancy: devices × time from #pool-data (unpacked by pool_rows.js) on a time canvas.
(() => {
  if (!document.getElementById("pool-canvas")) return;
  const name = (run, device) => {
    const pool = run.info.pools.find(([, first, count]) => device >= first && device < first + count);
    return pool ? `${pool[0]}:${device}` : String(device);
  };
  const some = (values, most) => values.length > most ? `${values.slice(0, most).join(", ")} and ${values.length - most} more` : values.join(", ");

  function draw(at, run, hues, found, pointed) {
    const { pen, view, width, height, left, unit, colour } = at;
    const perSecond = (width - left) / (view.to - view.from), painted = new Float64Array(Math.ceil(height) + 2);
    const sought = found.size ? [...run.job.keys()].filter((i) => found.has(run.job[i])) : [];
    const wanted = new Set(sought.map((i) => run.life[i]));
    pen.font = `${Math.min(11, unit - 3)}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    hues.rows.forEach((places, hue) => {
      painted.fill(-1);
      const ink = light(hues.palette[hue]) ? "#111" : "#fff";
      for (const place of places) {
        const bar = run.bars[place];
        if (bar.to < view.from || bar.from > view.to) continue;
        const x = Math.max(left + (bar.from - view.from) * perSecond, left), right = Math.min(left + (bar.to - view.from) * perSecond, width);
        const wide = Math.max(right - x - (right - x > 4 ? .5 : 0), .7), tall = Math.max(bar.tall * unit - (bar.tall * unit > 4 ? 1 : 0), .7);
        pen.globalAlpha = wanted.size && !wanted.has(bar.life) ? .25 : 1;
        for (const device of run.devices[bar.life]) {
          if (device > view.high || device + 1 < view.low) continue;
          const y = at.y(device + bar.low);
          if (right - x < 1) { // narrower than a pixel: those that start in a pixel already painted here are skipped
            const row = Math.min(Math.max(Math.round(y), 0), painted.length - 1), key = Math.floor(x);
            if (painted[row] === key) continue;
            painted[row] = key;
          }
          pen.fillStyle = hues.palette[hue];
          pen.fillRect(x, y, wide, tall);
          if (bar.share < 0 && wide > 12 && unit > 11) {
            pen.fillStyle = ink;
            pen.fillText(bar.count, x + wide / 2, y + tall / 2);
          }
        }
      }
    });
    pen.globalAlpha = 1;
    pen.strokeStyle = pen.fillStyle = colour("--soft");
    for (const [, first] of run.info.pools) if (first > 0) pen.fillRect(left, at.y(first) - 1, width - left, 1);
    for (const i of sought) outline(at, run.devices[run.life[i]], run.start[i], run.end[i], 2);
    if (pointed !== null) {
      const own = run.shares[pointed];
      outline(at, run.devices[pointed], run.start[own[0]], own.reduce((last, i) => Math.max(last, run.end[i]), 0), 1.5);
    }
  }

  const light = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return .3 * red + .6 * green + .1 * blue > 135;
  };

  function outline({ pen, width, left, unit, colour, ...at }, devices, from, to, line) {
    const x = Math.max(at.x(from), left), right = Math.min(at.x(to), width);
    pen.strokeStyle = colour("--text");
    pen.lineWidth = line;
    for (const device of devices) pen.strokeRect(x, at.y(device), Math.max(right - x, 2), Math.max(unit - 1, 1));
  }

  function hit(run, time, lane, slack) {
    const part = lane - Math.floor(lane);
    let best = -1;
    for (const place of run.onDevice[Math.floor(lane)] ?? []) {
      const bar = run.bars[place];
      if (bar.from - slack > time || bar.to + slack < time || part < bar.low || part > bar.low + bar.tall) continue;
      best = place;
      if (bar.from <= time && time < bar.to) break;
    }
    return best;
  }

  function tell(run, place, time, words) {
    const bar = run.bars[place], devices = [...run.devices[bar.life]], when = Math.min(Math.max(time, bar.from), bar.to);
    const here = run.shares[bar.life].filter((i) => run.start[i] <= bar.from && run.end[i] > bar.from);
    const described = (i) => run.ids[run.job[i]] + (run.apps[run.app[run.job[i]]] ? ` (${run.apps[run.app[run.job[i]]]})` : "");
    const names = some(devices.map((device) => name(run, device)), 8);
    const times = [`since ${words(bar.from)}`, `until ${words(bar.to)} (${words(bar.to - bar.from)})`];
    if (bar.share >= 0) {
      const busy = run.shares[bar.life].filter((i) => run.start[i] <= when && run.end[i] > when);
      return [`${names}, split into ${run.parts[bar.share]} parts, ${busy.length} in use`, `composition ${run.names[bar.life]}`,
        `this part: job ${described(bar.share)}`, `node ${run.node[bar.share]}`, ...times];
    }
    const nodes = [...new Set(here.map((i) => run.node[i]))];
    const first = run.shares[bar.life].reduce((low, i) => Math.min(low, run.start[i]), Infinity);
    return [`composition ${run.names[bar.life]}: ${names}` + (devices.length > 1 ? ` (${devices.length} devices)` : ""),
      `${nodes.length > 1 ? "nodes" : "node"} ${some(nodes, 8)}`,
      `${bar.count} ${bar.count > 1 ? "jobs share" : "job has"} it: ${some(here.map(described), 6)}`,
      ...times, first < bar.from ? `in use since ${words(first)}` : ""];
  }

  const note = ({ kept, rows, share }) => rows === 0 ? "No job held a device in this run."
    : kept === rows ? `All ${rows.toLocaleString("en")} shares are drawn.`
    : `The compositions with the most device-time are drawn: ${kept.toLocaleString("en")} of ${rows.toLocaleString("en")} shares; those left out hold ${((1 - share) * 100).toPrecision(2)} % of the device-time.`;
  function missing(run, wanted) {
    const { kept, rows } = run.info;
    return kept === rows ? `no job ${wanted} holds a device in this run`
      : `job ${wanted} has no device in what is drawn: ${kept.toLocaleString("en")} of ${rows.toLocaleString("en")} shares`;
  }
  timeCanvas("pool", { left: 96, word: "device", every: 15, label: name, unpack: poolRows.unpack, colours: poolRows.colours, draw, hit, tell, missing, note,
    lane: (run, i) => run.devices[run.life[i]][0],
    pointed: (run, place) => run.bars[place].life });
})();
