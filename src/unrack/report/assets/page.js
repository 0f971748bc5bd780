"use strict";
// Sorting of the comparison table, and the charts: specifications and columns are in #charts-data.
(() => {
  const byId = (id) => document.getElementById(id);
  const table = byId("runs"), heads = table.querySelectorAll(".heads th");

  function sortBy(head) {
    const column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.sort === undefined) return cell.textContent.trim();
      return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
    };
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("group")).map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // what has no value stays below
        const order = typeof a === "string" ? a.localeCompare(b) : a - b;
        return down ? -order : order;
      });
      rows.forEach(([, row]) => body.append(row));
    }
  }
  heads.forEach((head) => head.addEventListener("click", () => sortBy(head)));
  byId("all-metrics")?.addEventListener("change", (event) => table.classList.toggle("short", !event.target.checked));

  const data = JSON.parse(byId("charts-data").textContent);
  let turn = Promise.resolve();
  const hidden = new Set();
  const views = new Map();

  function rowsOf(series) {
    const rows = [];
    for (const { policy, ...columns } of series) {
      if (hidden.has(policy)) continue;
      const names = Object.keys(columns);
      columns.x.forEach((_, index) => {
        const row = { policy };
        for (const name of names) row[name] = columns[name][index];
        rows.push(row);
      });
    }
    return rows;
  }

  // Who is who, under the chart itself: only on paper, where the buttons above may be on another page.
  function key(chart) {
    const own = document.createElement("p"), drawn = new Set(chart.series.map(({ policy }) => policy).filter((name) => !hidden.has(name)));
    own.className = "policy-key";
    if (!JSON.stringify(chart.spec).includes('"field":"policy","type":"nominal","scale"')) return own;
    for (const { name, colour } of data.policies) {
      if (!drawn.has(name)) continue;
      const part = document.createElement("span"), chip = document.createElement("i");
      chip.className = "chip";
      chip.style.background = colour;
      part.append(chip, name);
      own.append(part, " ");
    }
    return own;
  }

  // Ticks and legends as a narrow page has room for them.
  function fitted(part) {
    if (Array.isArray(part)) return part.map(fitted);
    if (part === null || typeof part !== "object") return part;
    const own = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, name === "data" ? value : fitted(value)]));
    if (own.orient === "bottom" && own.columns) Object.assign(own, { columns: Math.min(own.columns, 2), labelLimit: 130 });
    if (own.gradientLength) own.gradientLength = Math.min(own.gradientLength, 200);
    if (own.titleLimit) own.titleLimit = Math.max(own.titleLimit, 300);
    if (own.axis && own.axis.labelLimit) own.axis.labelLimit = own.axis.labelAlign === "left" ? 360 : Math.min(own.axis.labelLimit, 150);
    return own;
  }

  async function draw(box, charts) {
    for (const plot of box.querySelectorAll(".plot")) views.get(plot)?.finalize();
    box.replaceChildren();
    if (!charts.length && box.id === "figures") box.textContent = "Nothing to draw: no job finished.";
    // All frames come first: the width of each depends on how many there are.
    const plots = charts.map((chart) => {
      const figure = document.createElement("figure");
      const title = document.createElement("figcaption");
      const note = document.createElement("p");
      const plot = document.createElement("div");
      title.textContent = chart.title;
      note.textContent = chart.note;
      note.className = "note";
      plot.className = "plot";
      figure.dataset.chart = chart.id;
      if (chart.wide) figure.className = "wide";
      figure.append(title, note, plot, key(chart));
      box.append(figure);
      return [chart, plot];
    });
    for (const [chart, plot] of plots) {
      const share = chart.shares === "always" || (chart.shares && byId("memory-colour").value === "share");
      const rows = chart.map ? await memoryMap.rows(chart.map, share) : rowsOf(chart.series);
      if (!rows.length) {
        plot.textContent = "Nothing to draw.";
        continue;
      }
      const shape = chart.map ? memoryMap.spec(chart, share) : chart.spec;
      const spec = { ...(narrow() ? fitted(shape) : shape), data: { values: rows }, config: theme(), description: `${chart.title}. ${chart.note}` };
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const { view } = await vegaEmbed(plot, spec, { actions: false, renderer: chart.map ? "canvas" : "svg", tooltip: { theme: dark ? "dark" : "light" } });
      views.set(plot, view);
      const picture = plot.querySelector("svg, canvas");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", `${chart.title}. ${chart.note}`);
      plot.querySelector(".vega-embed")?.removeAttribute("aria-label");
    }
  }

  const chooser = byId("setting");
  data.settings.forEach((setting, index) => chooser.add(new Option(setting.title, index)));
  byId("setting-label").hidden = data.settings.length < 2;

  function legend(box, policies) {
    const buttons = policies.map(({ name, colour }) => {
      const button = document.createElement("button");
      const chip = document.createElement("i");
      chip.className = "chip";
      chip.style.background = colour;
      button.type = "button";
      button.append(chip, name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      button.dataset.policy = name;
      button.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        for (const other of document.querySelectorAll(".legend [data-policy]")) other.setAttribute("aria-pressed", String(!hidden.has(other.dataset.policy)));
        drawAll();
      });
      return button;
    });
    box.replaceChildren(...buttons);
  }

  // A section on something that only some runs have: charts of the study, of the chosen setting and of the chosen run,
  // each group in its own place, and the tables of what was chosen only.
  const sections = [...document.querySelectorAll("section")].filter(({ id }) => data[id]?.settings).map((section) => {
    const own = data[section.id];
    const chosen = (what) => Number(section.querySelector(`[data-choose=${what}]`)?.value) || 0;
    async function drawSection() {
      for (const what of ["setting", "run"])
        for (const part of section.querySelectorAll(`div[data-${what}]`)) part.hidden = Number(part.dataset[what]) !== chosen(what);
      for (const box of section.querySelectorAll("[data-of]")) {
        const { of, group } = box.dataset;
        const charts = of === "study" ? own.study : own[of][chosen(of === "runs" ? "run" : "setting")]?.charts ?? [];
        await draw(box, group ? charts.filter((chart) => chart.group === group) : charts);
      }
    }
    for (const box of section.querySelectorAll(".policies")) legend(box, data.policies);
    for (const choice of section.querySelectorAll("[data-choose]")) {
      if (choice.dataset.choose === "setting") choice.parentElement.hidden = own.settings.length < 2;
      choice.addEventListener("change", () => { turn = turn.then(drawSection); });
    }
    return drawSection;
  });

  // What is drawn over swept parameters: the main metrics, and the one that was asked for, first.
  const swept = byId("sweep-metric");
  function sweepCharts() {
    return data.sweeps.flatMap(({ key, label, note, spec, metrics }) => metrics
      .filter((metric) => metric.shown || metric.name === swept?.value)
      .sort((a, b) => a.shown - b.shown)
      .map((metric) => ({ id: `${metric.name} over ${key}`, title: `${metric.words} over ${label}`, note: note + metric.note, series: metric.series, spec: titled(spec, metric.axis) })));
  }

  function titled(spec, axis) {
    const own = structuredClone(spec);
    for (const { encoding } of own.layer) {
      encoding.y.title = axis;
      for (const tip of encoding.tooltip ?? []) if (tip.field === "y") tip.title = axis;
    }
    return own;
  }

  function drawAll() {
    turn = turn.then(() => draw(byId("sweeps"), sweepCharts())).then(() => draw(byId("figures"), data.settings[Number(chooser.value) || 0].charts));
    for (const drawSection of sections) turn = turn.then(drawSection);
    return turn;
  }
  chooser.addEventListener("change", drawAll);
  swept?.addEventListener("change", () => { turn = turn.then(() => draw(byId("sweeps"), sweepCharts())); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  legend(byId("legend"), data.policies);
  drawAll().then(() => { document.documentElement.dataset.charts = "drawn"; });
})();
