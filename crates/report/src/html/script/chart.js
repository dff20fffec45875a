// Draws marks and lines between two axes, finds the mark under the pointer and shows its box. What to draw is decided in
// explore.js: { x, y, logX, logY, series: [{ name, look, marks: [{ point, x, y, spread }], line: [{ x, y }] }], label }.

const LOOKS = 6;
const MOST_BARS = 400; // points with error bars
const CROWD = 1500; // points from which they are drawn small
const REACH = 36; // pixels from the pointer to a mark

class Chart {
  constructor(host, describe) {
    this.host = host;
    this.describe = describe;
    this.picture = svg("svg", { tabindex: 0, role: "application", "aria-roledescription": "chart" });
    this.box = el("div", { class: "tip", role: "group", "aria-label": "Selected point", hidden: true });
    this.voice = el("p", { class: "offscreen", "aria-live": "polite" });
    host.append(this.picture, this.box, this.voice);
    this.current = -1;
    this.pinned = false;
    this.listen();
    new ResizeObserver(() => {
      this.width = host.clientWidth;
      this.draw();
    }).observe(host);
  }

  show(spec) {
    this.spec = spec;
    this.hide();
    this.draw();
  }

  draw() {
    // To ask for the width now would lay out the whole page first.
    const width = (this.width ??= this.host.clientWidth);
    if (!this.spec || !width) return;
    const height = width < 500 ? 300 : 400;
    const frame = { left: 66, right: width - 14, top: 14, bottom: height - 46 };
    const { spec, picture } = this;
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("aria-label", `${spec.label}. Arrow keys move between points, Enter keeps one open.`);
    const marks = spec.series.flatMap((series) => series.marks);
    const barred = marks.length <= MOST_BARS;
    const ends = [];
    for (const { y, spread } of marks) {
      if (barred) ends.push(spread.min, spread.max);
      else ends.push(y);
    }
    const x = makeScale(marks.map((mark) => mark.x), spec.logX, spec.x.kind !== "figure", frame.left, frame.right);
    const y = makeScale(ends, spec.logY, false, frame.bottom, frame.top);
    for (const mark of marks) {
      mark.left = x.place(mark.x);
      mark.top = y.place(mark.y);
    }
    this.marks = marks;
    this.isOrdered = false;
    picture.classList.toggle("crowded", marks.length > CROWD);
    this.ring = svg("circle", { class: "ring", r: 9, visibility: "hidden" });
    picture.replaceChildren(
      ...axes(frame, x, y, spec),
      ...spec.series.map((series) => drawSeries(series, x, y, barred)),
      ...notes(spec, x, y, frame),
      this.ring);
    if (!marks.length) picture.append(svg("text", { class: "axis", x: width / 2, y: height / 2, "text-anchor": "middle" }, "No points to show: change the filter or the figures."));
    if (this.current >= 0) this.select(this.current);
  }

  listen() {
    const { picture, box } = this;
    picture.addEventListener("pointermove", (event) => {
      if (this.pinned || event.pointerType === "touch") return;
      const at = this.nearest(event);
      if (at >= 0) this.select(at);
      else this.leave();
    });
    picture.addEventListener("pointerleave", () => this.leave());
    box.addEventListener("pointerenter", () => clearTimeout(this.leaving));
    box.addEventListener("pointerleave", () => this.leave());
    picture.addEventListener("click", (event) => {
      const at = this.nearest(event);
      this.pinned = at >= 0;
      if (at >= 0) this.select(at);
      else this.hide();
    });
    this.host.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.key === "Escape") {
      this.hide();
      this.picture.focus();
      return;
    }
    if (event.target !== this.picture || !this.marks?.length) return;
    if (!this.isOrdered) {
      // Only keys walk from left to right.
      const mark = this.marks[this.current];
      this.marks.sort((a, b) => a.left - b.left || a.top - b.top);
      this.current = this.marks.indexOf(mark);
      this.isOrdered = true;
    }
    const last = this.marks.length - 1;
    const moves = { ArrowRight: this.current + 1, ArrowLeft: this.current < 0 ? last : this.current - 1, Home: 0, End: last };
    if (event.key in moves) {
      this.pinned = true;
      this.select(Math.min(last, Math.max(0, moves[event.key])), true);
    } else if (event.key === "Enter" && this.current >= 0) {
      this.box.querySelector("button")?.focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  nearest(event) {
    const frame = this.picture.getBoundingClientRect();
    const [left, top] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = -1;
    let least = REACH ** 2;
    (this.marks ?? []).forEach((mark, i) => {
      const distance = (mark.left - left) ** 2 + (mark.top - top) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  select(at, aloud = false) {
    clearTimeout(this.leaving);
    this.leaving = null;
    const mark = this.marks[at];
    if (!mark) return;
    if (at !== this.current || this.box.hidden || this.isFull !== this.pinned) {
      this.box.replaceChildren(...this.describe(mark, this.pinned).flat().filter(Boolean));
    }
    this.isFull = this.pinned;
    this.current = at;
    this.ring.setAttribute("cx", mark.left);
    this.ring.setAttribute("cy", mark.top);
    this.ring.setAttribute("visibility", "visible");
    this.box.hidden = false;
    const room = this.host.clientWidth;
    const width = Math.min(this.pinned ? 420 : 300, room);
    const besides = mark.left + 16 + width <= room ? mark.left + 16 : Math.max(0, mark.left - 16 - width);
    this.box.style.cssText = room < 560 ? "" : `left:${besides}px;top:${Math.max(0, mark.top - 30)}px;width:${width}px`;
    if (aloud) this.voice.textContent = `${settingsText(mark.point.rows[0])}: ${this.spec.x.title} ${showNumber(mark.x)}, ${this.spec.y.title} ${showNumber(mark.y)}`;
  }

  leave() {
    if (this.pinned || this.leaving) return;
    this.leaving = setTimeout(() => this.hide(), 300);
  }

  hide() {
    clearTimeout(this.leaving);
    this.leaving = null;
    this.pinned = false;
    this.current = -1;
    this.box.hidden = true;
    this.ring?.setAttribute("visibility", "hidden");
  }

  /** Lets one series stand out; -1 for none. */
  stress(number) {
    this.picture.querySelectorAll(".series").forEach((group, i) => group.classList.toggle("dim", number >= 0 && i !== number));
  }
}

/** Marks differ in shape as well as in colour, as in the pictures; paths from their middle, nothing for a circle. */
const SHAPES = [
  ["dots", null],
  ["shaped", "m-4-4h8v8h-8z"],
  ["shaped", "m0-5l5 9h-10z"],
  ["shaped", "m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z"],
  ["shaped", "m0 5l5-9h-10z"],
  ["shaped cross", "m-4-4l8 8m0-8l-8 8"],
];

function shapeOf(number) {
  return SHAPES[(number + 3 * Math.floor(number / LOOKS)) % LOOKS];
}

function axes(frame, x, y, spec) {
  const text = (attributes, label) => svg("text", { class: "axis", ...attributes }, label);
  const vertical = y.ticks.map((tick) => svg("g", {},
    svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: tick.at, y2: tick.at }),
    text({ x: frame.left - 8, y: tick.at + 4, "text-anchor": "end" }, tick.label)));
  const horizontal = x.ticks.map((tick) => svg("g", {},
    svg("line", { class: "grid", x1: tick.at, x2: tick.at, y1: frame.top, y2: frame.bottom }),
    text({ x: tick.at, y: frame.bottom + 18, "text-anchor": "middle" }, tick.label)));
  const isNarrow = frame.right < 480;
  const title = (column, scale) => (isNarrow ? column.short ?? column.title : column.title) + (scale.isLog ? " · log" : "");
  return [
    ...vertical, ...horizontal,
    text({ class: "axis name", x: (frame.left + frame.right) / 2, y: frame.bottom + 38, "text-anchor": "middle" }, title(spec.x, x)),
    text({ class: "axis name", transform: `translate(12 ${(frame.top + frame.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, title(spec.y, y)),
  ];
}

function drawSeries(series, x, y, barred) {
  const group = svg("g", { class: `series ${series.look}` });
  if (series.line) {
    const path = series.line.map((place, i) => `${i ? "L" : "M"}${x.place(place.x).toFixed(1)} ${y.place(place.y).toFixed(1)}`).join("");
    group.append(svg("path", { class: "line", d: path }));
  }
  const bar = (mark) => `M${x.place(mark.x).toFixed(1)} ${y.place(mark.spread.min).toFixed(1)}V${y.place(mark.spread.max).toFixed(1)}`;
  const bars = barred ? series.marks.filter((mark) => hasInterval(mark.spread)) : [];
  if (bars.length) group.append(svg("path", { class: "bar", d: bars.map(bar).join("") }));
  const isCrowd = series.marks.length > CROWD;
  const tenth = (pixels) => (isCrowd ? Math.round(pixels) : Math.round(pixels * 10) / 10);
  const dot = (mark) => `M${tenth(mark.left)} ${tenth(mark.top)}h0`;
  const [faded, clear] = [series.marks.filter((mark) => mark.faded), series.marks.filter((mark) => !mark.faded)];
  // One path draws thousands of marks as one element; where there are so many, shapes would be too small to see.
  const marks = (some, more) => {
    const [kind, shape] = isCrowd ? ["dots", null] : shapeOf(series.number ?? 0);
    const path = some.map((mark) => (shape ? `M${tenth(mark.left)} ${tenth(mark.top)}${shape}` : dot(mark)));
    // Of marks at one place in a crowd, one is seen.
    return svg("path", { class: `${kind}${more}`, d: (isCrowd ? [...new Set(path)] : path).join("") });
  };
  if (faded.length) group.append(marks(faded, " faded"));
  group.append(marks(clear, ""));
  const doubtful = series.marks.filter((mark) => mark.point.doubtful);
  if (doubtful.length) group.append(svg("path", { class: "hollow", d: doubtful.map(dot).join("") }));
  return group;
}

/** Texts beside marks that deserve one (the knee), kept inside the frame. */
function notes(spec, x, y, frame) {
  return (spec.notes ?? []).map((note) => {
    const [left, top] = [x.place(note.x), y.place(note.y)];
    const isRight = left > (frame.left + frame.right) / 2;
    return svg("g", { class: "note" },
      svg("circle", { cx: left, cy: top, r: 10 }),
      svg("text", { x: left + (isRight ? -14 : 14), y: Math.max(frame.top + 10, top - 10), "text-anchor": isRight ? "end" : "start" }, note.text));
  });
}
