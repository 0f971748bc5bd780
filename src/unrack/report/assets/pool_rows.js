"use strict";
// The compositions of a pool: unpacked (the packing is described in occupancy.py), cut where a job joins or leaves, and
// coloured. A bar is a composition while the same jobs share it; on a split device, one part while a job has it.
const poolRows = (() => {
  const SHARED = ["#7FC8A9", "#3FA7A0", "#3B7EA1", "#5B5EA6", "#8E3B8E", "#C2185B"];
  const SIZES = ["#66CCEE", "#4477AA", "#228833", "#CCBB44", "#EE6677", "#AA3377"];
  const HUES = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE8866", "#44AA99", "#999933", "#882255"];
  const PART = "#D8B365", SEVERAL = "#8FA3B7";

  async function unpack(info) {
    const { head, take } = await timeCanvas.open(info.data);
    const n = head.rows;
    const gap = take(Uint32Array, n), length = take(Uint32Array, n);
    const life = take(Uint32Array, n), job = take(Uint32Array, n), node = take(Uint32Array, n);
    const sizes = take(Uint32Array, head.lives), links = take(Uint32Array, head.links), app = take(Uint32Array, head.jobs);
    const parts = take(Uint8Array, n);
    const { start, end } = timeCanvas.times(gap, length, info.start, head.tick);
    let at = 0;
    const devices = Array.from(sizes, (size) => links.subarray(at, at += size));
    const shares = devices.map(() => []);
    for (let i = 0; i < n; i++) shares[life[i]].push(i);
    const run = { info, ...head, lanes: info.devices, start, end, life, job, node, app, parts, devices, shares };
    run.bars = bars(run);
    run.onDevice = Array.from({ length: run.lanes }, () => []);
    run.bars.forEach((bar, place) => { for (const device of devices[bar.life]) run.onDevice[device].push(place); });
    run.kindOf = devices.map((_, index) => { // the application of all jobs of a composition, -1: several
      const own = new Set(shares[index].map((i) => app[job[i]]));
      return own.size === 1 ? [...own][0] : -1;
    });
    return run;
  }

  function bars({ start, end, parts, shares }) {
    const found = [];
    shares.forEach((own, life) => {
      if (parts[own[0]]) return split(own, life);
      const times = [...new Set(own.flatMap((i) => [start[i], end[i]]))].sort((a, b) => a - b);
      const ends = own.map((i) => end[i]).sort((a, b) => a - b);
      let came = 0, left = 0;
      times.forEach((from, k) => {
        while (came < own.length && start[own[came]] <= from) came++;
        while (left < ends.length && ends[left] <= from) left++;
        if (came > left) found.push({ life, from, to: times[k + 1], count: came - left, low: 0, tall: 1, share: -1 });
      });
    });
    function split(own, life) { // each job in the lowest part that is free
      const until = [];
      for (const i of own) {
        const free = until.findIndex((time) => time <= start[i]), slot = free < 0 ? until.length : free;
        until[slot] = end[i];
        found.push({ life, from: start[i], to: end[i], count: 1, low: Math.min(slot, parts[i] - 1) / parts[i], tall: 1 / parts[i], share: i });
      }
    }
    return found;
  }

  function colours(run, mode) {
    const counted = (palette, value, words) => {
      const seen = new Set(), most = palette.length;
      const hues = run.bars.map((bar) => {
        const hue = bar.share >= 0 ? most : Math.min(value(bar), most) - 1;
        seen.add(hue);
        return hue;
      });
      const labels = palette.map((colour, k) => [colour, `${k + 1 === most ? `${most} or more` : k + 1} ${words}${k ? "s" : ""}`]);
      labels.push([PART, "part of a split device"]);
      return [[...palette, PART], hues, labels.filter((_, k) => seen.has(k))];
    };
    const [palette, hues, labels] = mode === "sharers" ? counted(SHARED, (bar) => bar.count, "job")
      : mode === "size" ? counted(SIZES, (bar) => run.devices[bar.life].length, "device")
      : mode === "app" ? byApplication(run)
      : [HUES, run.bars.map((bar) => (Math.imul(bar.life + 1, 2654435761) >>> 8) % HUES.length), [[HUES[0], "bars of one colour, side by side in time, are one composition"]]];
    const rows = palette.map(() => []);
    hues.forEach((hue, place) => rows[hue].push(place));
    return { palette, rows, labels };
  }

  function byApplication(run) {
    const total = new Float64Array(run.apps.length);
    const code = (bar) => bar.share >= 0 ? run.app[run.job[bar.share]] : run.kindOf[bar.life];
    for (const bar of run.bars) if (code(bar) >= 0) total[code(bar)] += (bar.to - bar.from) * bar.tall * run.devices[bar.life].length;
    const order = [...total.keys()].filter((app) => total[app] > 0).sort((a, b) => total[b] - total[a] || a - b).slice(0, HUES.length);
    const hues = run.bars.map((bar) => { const place = order.indexOf(code(bar)); return place < 0 ? HUES.length : place; });
    const labels = order.map((app, place) => [HUES[place], run.apps[app] || "not known"]);
    if (hues.includes(HUES.length)) labels.push([SEVERAL, "several, or others"]);
    return [[...HUES, SEVERAL], hues, labels];
  }

  return { unpack, colours };
})();
