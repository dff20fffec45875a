// The two charts with their controls: what trades against what, and how figures grow with the load.

const MOST_CURVES = 12;
const WIDE_LOAD = 8; // largest by smallest value from which a logarithmic axis suits, as in the pictures (ladder.rs)
const WIDE_FIGURES = 60;
// Where every run was cut short, what is known of the servers, such as their GPUs, is nothing to draw.
const isMeasured = points.some((point) => point.used.length);
const figures = columns.filter((column) => isMeasured && column.kind === "figure" && column.values.some((value) => typeof value === "number"));
const numericSettings = varying.filter((column) => new Set(column.values.filter((value) => typeof value === "number")).size > 1);

/** A labelled select over columns; `value` is the chosen column or one of the extra names. */
function chooser(label, choices, chosen, changed) {
  const options = choices.map((choice) => el("option", { value: choice.name, selected: choice.name === chosen }, choice.short ?? choice.title));
  return el("label", {}, label, el("select", { change: changed }, options));
}

function toggle(label, changed, checked = false) {
  return el("label", { class: "toggle" }, el("input", { type: "checkbox", change: changed, checked }), label);
}

/** Whether a logarithmic axis suits these values: all positive, and the largest so many times the smallest. */
function isWide(values, ratio) {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), 0)];
  return finite.length > 0 && low > 0 && high / low >= ratio;
}

/** Marks of the points that pass the filter and have both figures. */
function marksOf(x, y) {
  const marks = [];
  for (const point of points) {
    if (!point.used.length || !targets.shows(point) || !point.rows.some((row) => filter.passes(row))) continue;
    const [across, up] = [spreadOf(point, x), spreadOf(point, y)];
    if (across && up) marks.push({ point, x: across.median, y: up.median, spread: up, faded: !targets.meets(point) });
  }
  return marks;
}

const looks = (number) => `look${number % LOOKS}${Math.floor(number / LOOKS) % 2 ? " dashed" : ""}`;

class Panel {
  constructor(name, { xs, x, y, by, logX, frontier }) {
    const host = document.getElementById(name);
    this.frontier = frontier;
    const redraw = () => this.draw();
    const rescale = () => {
      this.rescale();
      this.draw();
    };
    const several = by.includes("\n") ? [{ name: by, title: by.split("\n").map((name) => columnByName.get(name).short).join(" and ") }] : [];
    const byChoices = [{ name: "*", title: "all other settings" }, { name: "-", title: "nothing" }, ...several, ...varying.map((column) => ({ name: column.name, title: column.short }))];
    const choosers = [
      chooser("x", xs, x, redraw),
      chooser("y", figures, y, rescale),
      chooser("Colour by", byChoices, by, redraw),
    ];
    [this.x, this.y, this.by] = choosers.map((label) => label.querySelector("select"));
    this.usual = { x, y };
    [this.x, this.y, this.by].forEach((select, i) => {
      const axis = ["x", "y", "by"][i];
      keepChoice(`${name}.${axis}`, select, this.usual[axis] && (() => this.usual[axis]));
    });
    const toggles = [toggle("log x", redraw, logX), toggle("log y", redraw)];
    [this.logX, this.logY] = toggles.map((label) => label.querySelector("input"));
    this.legend = el("ul", { class: "legend", "aria-label": "Curves" });
    this.note = el("p", { class: "note" });
    const plot = el("div", { class: "plot" });
    host.append(el("div", { class: "controls" }, choosers, toggles), plot, this.legend, this.note);
    const shown = () => [columnByName.get(this.x.value), columnByName.get(this.y.value)].filter((column) => column.kind === "figure");
    this.chart = new Chart(plot, (mark, isFull) => (isFull ? [...describePoint(mark.point, shown()), sideButtons(mark.point)] : briefly(mark.point, shown())));
    const later = whenSeen(plot, redraw);
    filter.listeners.push(() => {
      this.turn(usualAxes(name), name);
      later();
    });
    this.rescale();
    later();
  }

  /** Curves choose the scale that suits their figure, as the pictures do; a trade-off is read on even ones. */
  rescale() {
    if (!this.frontier) this.logY.checked = isWide(points.map((point) => targets.shows(point) ? spreadOf(point, columnByName.get(this.y.value))?.median : NaN), WIDE_FIGURES);
  }

  /** Axes that suit the workload that is shown, unless the reader has chosen others. */
  turn(usual, name) {
    const before = this.y.value;
    for (const axis of ["x", "y"]) {
      if (usual[axis] && recall(`${name}.${axis}`) == null) this[axis].value = this.usual[axis] = usual[axis];
    }
    if (this.y.value !== before) this.rescale();
  }

  draw() {
    const [x, y] = [columnByName.get(this.x.value), columnByName.get(this.y.value)];
    const marks = marksOf(x, y);
    let series = this.series(x, marks);
    const notes = [];
    const all = series.length;
    if (this.frontier) {
      const [xUp, yUp] = [higherIsBetter(x) ?? true, higherIsBetter(y) ?? true];
      // As in the answer, suspect points compete too, if they meet what the plan asks.
      const front = paretoFrontier(marks.filter((mark) => mark.point.competes && !mark.faded), xUp, yUp);
      const knee = kneeOf(front, xUp, yUp);
      if (knee) notes.push({ x: knee.x, y: knee.y, text: "knee" });
      this.front = { front, knee };
      if (front.length > 1) series.unshift({ name: "Pareto frontier", look: "front", marks: [], line: front });
    }
    this.chart.show({ x, y, logX: this.logX.checked, logY: this.logY.checked, series, notes, label: `${y.title} against ${x.title}, ${marks.length} points` });
    this.tell(series, all, marks.length);
  }

  /** Marks grouped into curves: lines only where x is a setting, for a line between unrelated points means nothing. */
  series(x, marks) {
    const names = this.names(x);
    const groups = new Map();
    for (const mark of marks) gather(groups, names[mark.point.index], mark);
    const ordered = [...groups].sort(([a], [b]) => inOrder.compare(a, b));
    return ordered.map(([name, members], i) => ({
      name,
      look: looks(i),
      number: i,
      marks: members,
      line: x.kind === "figure" ? null : middles(members),
    }));
  }

  /** The name of each point's curve. A choice of settings has its names once. */
  names(x) {
    const by = this.by.value;
    const kept = `${by} ${x.name}`;
    if (this.kept !== kept) {
      const told = by === "*" ? varying.filter((column) => column !== x && !ofWorkload.includes(column)) : by.split("\n").map((name) => columnByName.get(name));
      const name = ({ rows: [row] }) => {
        if (by === "-") return "all points";
        if (by === "*") return settingsText(row, told, "all points");
        return told.map((column) => settingText(column, column.values[row])).join(", ");
      };
      this.kept = kept;
      this.curves = points.map(name);
    }
    return this.curves;
  }

  tell(series, curves, count) {
    const shown = series.slice(0, MOST_CURVES + 1);
    this.legend.replaceChildren(...(curves > 1 || series.length > 1 ? shown : []).map((one, i) => {
      const stress = () => this.chart.stress(button.getAttribute("aria-pressed") === "true" ? i : -1);
      const button = el("button", { type: "button", "aria-pressed": "false", click: () => {
        const pressed = button.getAttribute("aria-pressed") === "true";
        for (const other of this.legend.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(!pressed));
        stress();
      }, pointerenter: () => this.chart.stress(i), pointerleave: () => this.chart.stress(this.pressed()) },
      svg("svg", { class: `series ${one.look}`, width: 26, height: 12, "aria-hidden": "true" },
        one.line ? svg("path", { class: "line", d: "M2 6H24" }) : "", one.marks.length ? svg("path", { class: shapeOf(one.number)[0], d: `M13 6${shapeOf(one.number)[1] ?? "h0"}` }) : ""), one.name);
      return el("li", {}, button);
    }));
    const more = series.length - shown.length;
    this.note.textContent = [
      more > 0 ? `Further curves: ${more}; filter, or colour by one setting.` : "",
      series.some((one) => one.marks.some((mark) => mark.point.doubtful)) ? "Hollow points are suspect." : "",
      series.some((one) => one.marks.some((mark) => mark.faded)) ? "Faded points miss a target." : "",
      !this.frontier && !["*", "-"].includes(this.by.value) ? "Lines are medians over the other settings." : "",
      "Points are estimates with their 95 % intervals; figures that the answer does not judge are medians of runs, with their range.",
      `${showCount(count)} point${count === 1 ? "" : "s"}.`,
    ].filter(Boolean).join(" ");
  }

  pressed() {
    return [...this.legend.querySelectorAll("button")].findIndex((button) => button.getAttribute("aria-pressed") === "true");
  }
}

/** A curve through the middle of the points at each x. */
function middles(marks) {
  const byX = new Map();
  for (const mark of marks) gather(byX, mark.x, mark.y);
  const ordered = [...byX].sort(([a], [b]) => a - b);
  return ordered.map(([x, ys]) => ({ x, y: middle(ys.sort((a, b) => a - b)) }));
}

const has = (name) => figures.some((column) => column.name === name);
const firstOf = (...names) => names.find(has) ?? figures[0]?.name;

/** The axes of a chart that suit the workload that is shown; what is not said stays. */
function usualAxes(name) {
  const { throughput, latency } = data.workloads[targets.workload];
  const isOfRequests = !latency || /ttft|e2el/.test(latency);
  if (name === "curves") return { y: askedPlot?.y ?? (isOfRequests ? firstOf("p99_ttft_ms", "median_ttft_ms", latency, throughput) : latency) };
  if (throughput === data.pareto[1] && has(data.pareto[0])) return { x: data.pareto[0], y: data.pareto[1] };
  return { x: firstOf(latency, "median_e2el_ms", "median_ttft_ms"), y: firstOf(throughput, "output_throughput") };
}

/** The first chart that the plan asks for. */
const askedPlot = data.plots.find((plot) => columnByName.has(plot.x) && has(plot.y));

/** What curves are told apart by: what the plan asks for; else everything, or, of many servers, the setting that matters most. */
function curvesBy(asked) {
  const known = asked?.by.filter((name) => columnByName.has(name)) ?? [];
  if (known.length) return known.join("\n");
  const servers = new Set(points.filter((point) => point.used.length).map(serverText));
  return servers.size > MOST_CURVES && data.leading ? data.leading : "*";
}

function buildExplore() {
  buildWorkloads(document.getElementById("workloads"));
  buildFilters(document.getElementById("filters"));
  buildTargets(document.getElementById("targets"));
  buildUsers(document.getElementById("users"));
  const panels = {};
  if (figures.length && points.length > 1) {
    const others = varying.filter((column) => column.name !== data.swept);
    panels.pareto = new Panel("pareto", {
      xs: figures, ...usualAxes("pareto"), by: data.leading ?? others[0]?.name ?? "-", frontier: true,
    });
  } else {
    document.getElementById("pareto").closest("article").hidden = true;
  }
  const asked = askedPlot;
  const swept = asked?.x ?? data.swept ?? numericSettings[0]?.name;
  if (figures.length && swept) {
    const xs = numericSettings.some((column) => column.name === swept) ? numericSettings : [columnByName.get(swept), ...numericSettings];
    panels.curves = new Panel("curves", {
      xs, x: swept, ...usualAxes("curves"),
      by: curvesBy(asked), logX: isWide(columnByName.get(swept).values, WIDE_LOAD), frontier: false,
    });
  } else {
    document.getElementById("curves").closest("article").hidden = true;
  }
  return panels;
}

/** For tests: what the charts hold, and what the sliders choose. */
window.vsweep = { panels: buildExplore(), data, targets, meeting, columnByName };
