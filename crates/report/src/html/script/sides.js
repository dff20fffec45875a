// Two points side by side: what differs in their settings, every figure of both with its ratio, and how their latencies are distributed.

const MOST_OPTIONS = 400;

/** Puts a point on a side; set once there are sides. */
let sideChooser = null;

function buildSides(host) {
  const measured = points.filter((point) => point.used.length);
  if (measured.length < 2) {
    host.closest("article").hidden = true;
    return;
  }
  const ranked = [...measured].sort((a, b) => (worthOf(b) ?? 0) - (worthOf(a) ?? 0));
  const listed = ranked.slice(0, MOST_OPTIONS);
  const usual = [listed[0], listed.find((point) => point.workload === listed[0].workload && !isSameServer(point, listed[0])) ?? listed[1]];
  const sides = ["a", "b"].map((name, i) => {
    const select = el("select", {}, listed.map((point) => el("option", { value: point.id, selected: point === usual[i] }, settingsText(point.rows[0]))));
    keepChoice(`side.${name}`, select);
    select.addEventListener("change", () => show());
    return select;
  });
  const port = el("div", {});
  const show = () => port.replaceChildren(...compareSides(...sides.map((select) => points.find((point) => point.id === select.value))));
  host.append(el("div", { class: "controls" }, el("label", {}, "A", sides[0]), el("label", {}, "B", sides[1])), port);
  show();
  sideChooser = (point, side) => {
    if (![...sides[side].options].some((option) => option.value === point.id)) sides[side].append(el("option", { value: point.id }, settingsText(point.rows[0])));
    sides[side].value = point.id;
    sides[side].dispatchEvent(new Event("change"));
  };
}

/** Buttons in the box of a point. */
function sideButtons(point) {
  if (!sideChooser) return null;
  return el("p", { class: "controls" }, ["A", "B"].map((name, side) => el("button", { type: "button", click: () => sideChooser(point, side) }, `Compare as ${name}`)));
}

function compareSides(a, b) {
  const rows = [a.rows[0], b.rows[0]];
  const differs = columns.filter((column) => (column.kind === "serve" || column.kind === "bench") && column.values[rows[0]] !== column.values[rows[1]]);
  const settings = differs.map((column) => [column.name, ...rows.map((row) => showValue(column.values[row]))]);
  const both = figures.map((column) => [column, spreadOf(a, column), spreadOf(b, column)]).filter(([, one, other]) => one && other);
  const told = both.map(([column, one, other]) => [column.title, spreadText(one), spreadText(other), ratioText(one, other)]);
  const table = (heads, body) => el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, body.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), cells.map((cell, i) => el("td", { "data-head": heads[i + 1] }, cell))))));
  const distributions = (data.cdfs.titles ?? []).map((title, i) => cdfChart(title, [a, b].map((point) => data.cdfs.points[point.index]?.[i] ?? null)));
  const named = [a, b].map((point, i) => el("li", {}, el("strong", {}, i ? "B" : "A"), `: ${settingsText(point.rows[0])}`));
  return [
    el("ul", { class: "named" }, named),
    settings.length ? el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Settings that differ" }, table(["Setting", "A", "B"], settings)) : el("p", { class: "note" }, "The settings are the same."),
    distributions.some(Boolean) ? el("div", { class: "small" }, distributions.filter(Boolean)) : el("p", { class: "note" }, "The page has no distributions of these points."),
    el("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "Figures of both" }, table(["Figure", "A", "B", "B against A"], told)),
    el("p", { class: "note" }, "In brackets: the 95 % interval, or, with a number of runs, their range."),
  ];
}

/** The change from A to B, with what the ends of both intervals allow. The ends of a range of runs say nothing about other runs. */
function ratioText(one, other) {
  if (!(one.min > 0) || !(other.min > 0)) return "–";
  const ratios = [other.median / one.median, other.min / one.max, other.max / one.min];
  const isMultiple = ratios[0] > 2;
  const show = (ratio) => (isMultiple ? `x ${showNumber(ratio)}` : `${ratio < 1 ? "-" : "+"}${showNumber(Math.abs(ratio - 1) * 100)} %`);
  const [ratio, min, max] = ratios.map(show);
  return one.isEstimate && other.isEstimate ? `${ratio} (${min} to ${max})` : ratio;
}

/** The share of requests that took at most so long, at both points. */
function cdfChart(title, lines) {
  if (!lines.some(Boolean)) return null;
  const { width, height, left, right, top, bottom } = { width: 300, height: 180, left: 40, right: 20, top: 8, bottom: 22 };
  const times = lines.flatMap((line) => line ?? []).filter((ms) => ms > 0);
  const x = makeScale(times, isWide(times, 8), false, left, width - right);
  const y = makeScale([0, 50, 100], false, true, height - bottom, top);
  const middleOf = (line) => (line ? showNumber(line[data.cdfs.shares.indexOf(0.5)]) : "unknown");
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: half of all within ${middleOf(lines[0])} ms at A, ${middleOf(lines[1])} ms at B` });
  for (const tick of y.ticks) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: tick.at, y2: tick.at }), svg("text", { class: "axis", x: left - 5, y: tick.at + 4, "text-anchor": "end" }, tick.label));
  }
  for (const tick of x.ticks) picture.append(svg("text", { class: "axis", x: tick.at, y: height - 6, "text-anchor": "middle" }, tick.label));
  lines.forEach((line, i) => {
    if (!line) return;
    const places = line.map((ms, at) => [ms, data.cdfs.shares[at] * 100]).filter(([ms]) => ms > 0 || !x.isLog);
    const path = places.map(([ms, share], at) => `${at ? "L" : "M"}${x.place(ms).toFixed(1)} ${y.place(share).toFixed(1)}`).join("");
    picture.append(svg("g", { class: `series ${looks(i)}${i ? " dashed" : ""}` }, svg("title", {}, i ? "B" : "A"), svg("path", { class: "line", d: path })));
  });
  const legend = lines.map((line, i) => (line ? el("li", {}, svg("svg", { class: `series ${looks(i)}${i ? " dashed" : ""}`, width: 18, height: 8, "aria-hidden": "true" }, svg("path", { class: "line", d: "M0 4H18" })), i ? " B" : " A") : null));
  return el("figure", {}, el("figcaption", {}, `${title}: share (%) within ms${x.isLog ? " · log" : ""}`), picture, el("ul", { class: "legend" }, legend.filter(Boolean)));
}

buildSides(document.getElementById("sides"));
