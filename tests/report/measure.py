"""What a reader would see on a page, measured in the browser."""

FAULTS = """() => {
  const found = [], seen = (one) => one.getClientRects().length > 0;
  const name = (one) => one.closest("figure")?.dataset.chart ?? one.closest("section")?.id ?? "page";
  const near = 1.5, edge = document.documentElement.clientWidth + near;
  for (const one of document.querySelectorAll("body *")) {
    if (!seen(one) || one.closest(".scroll, pre, .canvas") || one.closest("svg")) continue;
    if (one.getBoundingClientRect().right > edge) found.push(`${name(one)}: <${one.tagName}> is wider than the page`);
  }
  if (document.documentElement.scrollWidth > edge) found.push("page: it scrolls sideways");
  for (const svg of document.querySelectorAll("svg")) {
    if (!seen(svg)) continue;
    if (svg.getAttribute("role") !== "img") found.push(`${name(svg)}: no role`);
    if (!svg.getAttribute("aria-label") && !svg.querySelector("title")) found.push(`${name(svg)}: no title`);
    const frame = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect(), words = text.textContent;
      if (!words.trim() || getComputedStyle(text).opacity === "0" || text.getAttribute("opacity") === "0") continue;
      const aside = box.left < frame.left - near || box.right > frame.right + near;
      if (aside || box.top < frame.top - near || box.bottom > frame.bottom + near)
        found.push(`${name(svg)}: "${words}" is clipped`);
      if (words.includes("…")) found.push(`${name(svg)}: "${words}" is cut`);
      const { b, c } = text.getScreenCTM();
      if (Math.abs(b) > .01 || Math.abs(c) > .01) found.push(`${name(svg)}: "${words}" is rotated`);
    }
    for (const axis of svg.querySelectorAll(".role-axis-label")) {
      const shown = (text) => getComputedStyle(text).opacity !== "0" && text.getAttribute("opacity") !== "0";
      const boxes = [...axis.querySelectorAll("text")].filter((text) => shown(text) && text.textContent)
        .map((text) => [text.getBoundingClientRect(), text.textContent]);
      boxes.forEach(([one, words], i) => boxes.slice(i + 1).forEach(([other, more]) => {
        const beside = one.left >= other.right - .5 || other.left >= one.right - .5;
        if (!beside && one.top < other.bottom - 3 && other.top < one.bottom - 3)
          found.push(`${name(svg)}: ticks "${words}" and "${more}" overlap`);
      }));
    }
  }
  return found;
}"""
"""Sentences on what is wrong with the page as it is shown now; empty where nothing is."""
