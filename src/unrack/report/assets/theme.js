"use strict";
// How charts look on a page, by its colours.
const narrow = () => document.documentElement.clientWidth < 600;

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { labelColor: colour("--soft"), titleColor: colour("--soft"), gridColor: colour("--line"), domainColor: colour("--line"),
    tickColor: colour("--line"), titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12, labelSeparation: 6, labelLimit: narrow() ? 150 : 170 };
  // Titles of vertical axes stand above them: nothing is read sideways, and nothing is cut where a chart is low.
  const axisY = { titleAngle: 0, titleAlign: "left", titleBaseline: "bottom", titleX: 0, titleY: -7, titleLimit: 320 };
  const legend = { labelColor: colour("--text"), titleColor: colour("--soft"), titleFontWeight: "normal", labelFontSize: 11, symbolSize: 90 };
  const heatmap = [1, 2, 3, 4, 5].map((step) => colour(`--heat-${step}`));
  return { background: "transparent", font: "system-ui, sans-serif", axis, axisY, legend, rule: { color: colour("--text") }, text: { color: colour("--text") }, view: { stroke: null }, range: { heatmap } };
}
