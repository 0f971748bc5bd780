"use strict";
// The charts of a plan: one for each goal, in the order of the figures.
(async () => {
  const data = JSON.parse(document.getElementById("charts-data").textContent);
  const plots = [...document.querySelectorAll("#front .plot")];
  for (const [index, { title, spec }] of data.entries()) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    await vegaEmbed(plots[index], { ...spec, config: theme(), description: title }, { actions: false, renderer: "svg", tooltip: { theme: dark ? "dark" : "light" } });
    const picture = plots[index].querySelector("svg");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", title);
  }
  document.documentElement.dataset.charts = "drawn";
})();
