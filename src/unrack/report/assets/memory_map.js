"use strict";
// The cells of a map of memory (the packing is described in memory_map.py) as rows for a chart; empty ones are left out.
const memoryMap = (() => {
  const memory = (mb) => mb < 1024 ? `${+mb.toPrecision(3)} MB` : mb < 1048576 ? `${+(mb / 1024).toPrecision(3)} GB` : `${+(mb / 1048576).toPrecision(3)} TB`;
  const nodes = (from, to) => to - from > 1 ? `nodes ${from}–${to - 1}` : `node ${from}`;
  const percent = (share) => `${+(100 * share).toPrecision(3)} %`;

  async function rows(data, share) {
    const { head, take } = await timeCanvas.open(data);
    const bounds = head.nodes, lanes = bounds.length - 1, columns = head.columns ?? lanes;
    const mb = take(Uint32Array, lanes * columns), found = [];
    const all = mb.reduce((sum, amount) => sum + amount, 0);
    for (let i = 0; i < mb.length; i++) {
      if (!mb[i]) continue;
      const lane = Math.floor(i / columns), column = i % columns;
      const count = bounds[lane + 1] - bounds[lane], installed = head.installed[lane];
      const row = { y: head.places[lane], y2: head.places[lane + 1], who: nodes(bounds[lane], bounds[lane + 1]), amount: memory(mb[i]) };
      if (head.columns) {
        row.x = head.from + column * head.step;
        row.x2 = row.x + head.step;
        row.when = `${+row.x.toPrecision(4)} to ${+row.x2.toPrecision(4)} ${head.unit}`;
        if (count > 1) row.amount = `${memory(mb[i] / count)} a node, ${row.amount} in all`;
        row.share = installed ? percent(mb[i] / installed) : "not known";
        row.value = share ? mb[i] / installed : mb[i] / count / 1024;
      } else {
        row.x = head.places[column];
        row.x2 = head.places[column + 1];
        row.when = nodes(bounds[column], bounds[column + 1]);
        row.share = percent(mb[i] / all);
        row.value = mb[i] / 1024;
      }
      found.push(row);
    }
    return found;
  }

  // The chart's specification, with another legend where cells show shares.
  function spec(chart, share) {
    if (!share) return chart.spec;
    const own = structuredClone(chart.spec), legend = own.layer[0].encoding.color.legend;
    if (chart.shares !== "always") legend.title = "share of the node's memory that is lent";
    legend.format = ".0%";
    return own;
  }
  return { rows, spec };
})();
