"use strict";
// Sorting of the comparison table, and the charts: specifications and columns are in #charts-data.
(() => {
  const byId = (id) => document.getElementById(id);
  const table = byId("runs");

  function sortBy(head) {
    const column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
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
  table.querySelectorAll("thead th").forEach((head) => head.addEventListener("click", () => sortBy(head)));
  byId("all-metrics")?.addEventListener("change", (event) => table.classList.toggle("short", !event.target.checked));

  const data = JSON.parse(byId("charts-data").textContent);
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

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { labelColor: colour("--soft"), titleColor: colour("--soft"), gridColor: colour("--line"), domainColor: colour("--line"),
      tickColor: colour("--line"), titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12 };
    return { background: "transparent", font: "system-ui, sans-serif", axis, view: { stroke: null } };
  }

  async function draw(box, charts) {
    for (const plot of box.querySelectorAll(".plot")) views.get(plot)?.finalize();
    box.replaceChildren();
    if (!charts.length && box.id === "figures") box.textContent = "Nothing to draw: no job finished.";
    for (const chart of charts) {
      const figure = document.createElement("figure");
      const title = document.createElement("figcaption");
      const note = document.createElement("p");
      const plot = document.createElement("div");
      title.textContent = chart.title;
      note.textContent = chart.note;
      note.className = "note";
      plot.className = "plot";
      figure.dataset.chart = chart.id;
      figure.append(title, note, plot);
      box.append(figure);
      const rows = rowsOf(chart.series);
      if (!rows.length) {
        plot.textContent = "Nothing to draw.";
        continue;
      }
      const spec = { ...chart.spec, data: { values: rows }, config: theme(), description: `${chart.title}. ${chart.note}` };
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const { view } = await vegaEmbed(plot, spec, { actions: false, renderer: "svg", tooltip: { theme: dark ? "dark" : "light" } });
      views.set(plot, view);
    }
  }

  const chooser = byId("setting");
  data.settings.forEach((setting, index) => chooser.add(new Option(setting.title, index)));
  byId("setting-label").hidden = data.settings.length < 2;

  function legend() {
    const buttons = data.policies.map(({ name, colour }) => {
      const button = document.createElement("button");
      const chip = document.createElement("i");
      chip.className = "chip";
      chip.style.background = colour;
      button.type = "button";
      button.append(chip, name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      button.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        button.setAttribute("aria-pressed", String(!hidden.has(name)));
        drawAll();
      });
      return button;
    });
    byId("legend").replaceChildren(...buttons);
  }

  let turn = Promise.resolve();
  function drawAll() {
    turn = turn.then(() => draw(byId("sweeps"), data.sweeps)).then(() => draw(byId("figures"), data.settings[Number(chooser.value) || 0].charts));
    return turn;
  }
  chooser.addEventListener("change", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  legend();
  drawAll().then(() => { document.documentElement.dataset.charts = "drawn"; });
})();
