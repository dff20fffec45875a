// What was read of server, GPUs and host during a run: one small chart a quantity, all over the same time.

const SMALL = { width: 270, height: 130, right: 8, top: 8, bottom: 22 };
const DIGIT_PX = 7;
const watchedByRow = new Map(data.telemetry.runs.map((watched) => [watched.row, watched]));

/** The charts of one run. */
function watchedCharts(watched) {
  return el("div", { class: "small" }, watched.charts.map((chart) => el("figure", {},
    el("figcaption", {}, chart.title + (chart.unit ? ` (${chart.unit})` : "")),
    smallChart(chart, watched.seconds),
    chart.lines.length > 1
      ? el("ul", { class: "legend" }, chart.lines.map(([name], i) => el("li", {}, svg("svg", { class: looks(i), width: 18, height: 8, "aria-hidden": "true" }, svg("path", { class: "line", d: "M0 4H18" })), ` ${name}`)))
      : null)));
}

function smallChart(chart, seconds) {
  const { width, height, right, top, bottom } = SMALL;
  const [from, to] = [seconds[0], Math.max(seconds.at(-1), seconds[0] + 1e-3)];
  const values = chart.lines.flatMap(([, line]) => line).filter((value) => value != null);
  const scale = makeScale(values, false, false, height - bottom, top);
  const left = 12 + DIGIT_PX * Math.max(...scale.ticks.map((tick) => tick.label.length), 4);
  const x = (moment) => left + ((width - left - right) * (moment - from)) / (to - from);
  const last = showNumber(values.at(-1) ?? NaN);
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}: at most ${showNumber(most)} ${chart.unit}, at the end ${last}` });
  for (const tick of scale.ticks) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: tick.at, y2: tick.at }),
      svg("text", { class: "axis", x: left - 5, y: tick.at + 4, "text-anchor": "end" }, tick.label));
  }
  const moments = linearTicks(from, to, 4);
  showAlike(moments).forEach((label, i) => picture.append(svg("text", { class: "axis", x: x(moments[i]), y: height - 6, "text-anchor": "middle" }, label)));
  if (from < 0 && to > 0) picture.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: height - bottom }, svg("title", {}, "t0")));
  chart.lines.forEach(([name, line], i) => {
    const pieces = line.map((value, at) => (value == null ? null : `${line[at - 1] == null ? "M" : "L"}${x(seconds[at]).toFixed(1)} ${scale.place(value).toFixed(1)}`));
    // A reading between two unknown ones is a dot.
    const dots = line.map((value, at) => (value != null && line[at - 1] == null && line[at + 1] == null ? `M${x(seconds[at]).toFixed(1)} ${scale.place(value).toFixed(1)}h0` : null));
    picture.append(svg("g", { class: `series ${looks(i)}` }, svg("title", {}, name || chart.title), svg("path", { class: "line", d: pieces.filter(Boolean).join("") }), svg("path", { class: "dots", d: dots.filter(Boolean).join("") })));
  });
  return picture;
}

function buildTelemetry(host) {
  const { runs, left_out: leftOut, missing } = data.telemetry;
  if (!runs.length) {
    host.append(el("p", { class: "empty" }, "No readings were kept with the runs."));
    return;
  }
  const port = el("div", {});
  const name = (row) => `${settingsText(row)}, run ${runValues("run")[row]}`;
  // The name stands there once more for paper, which has no list to choose from, and because a list cuts long ones.
  const show = (row) => port.replaceChildren(el("p", { class: "settings" }, name(row)), watchedCharts(watchedByRow.get(row)));
  const options = runs.map(({ row }) => el("option", { value: row }, name(row)));
  const select = el("select", { change: () => show(Number(select.value)) }, options);
  const told = [
    "Seconds since the measurement began. One reading a second; of a long run, means of several.",
    leftOut ? `Points whose readings are only in runs/: ${showCount(leftOut)}.` : "",
    missing ? `Points without readings: ${showCount(missing)}.` : "",
  ];
  host.append(el("div", { class: "controls" }, el("label", {}, "Run", select)), port, el("p", { class: "note" }, told.filter(Boolean).join(" ")));
  // The longest run shows most.
  const longest = runs.reduce((most, run) => (run.seconds.length > most.seconds.length ? run : most));
  select.value = longest.row;
  show(longest.row);
}

buildTelemetry(document.getElementById("watched"));
window.vsweep.openRun = openRun;
