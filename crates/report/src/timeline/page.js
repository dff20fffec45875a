// One row a request on a canvas: only the rows and the time in view are drawn, so thousands of requests scroll smoothly.

const ROW_PX = 14;
const HEAD_PX = 24; // the axis
const NAME_PX = 64; // the requests' numbers

/** All times in microseconds. */
const requests = JSON.parse(document.getElementById("data").textContent).requests.map(([start, ttft, gaps, [prompt, output], error], number) => ({
  number, start, ttft, gaps, prompt, output, error,
  end: start + ttft + gaps.reduce((sum, gap) => sum + gap, 0),
  slowest: gaps.reduce((most, gap) => Math.max(most, gap), 0),
}));
const whole = Math.max(1, requests.reduce((most, request) => Math.max(most, request.end), 0));

const port = document.getElementById("port");
const field = document.getElementById("field");
const canvas = document.getElementById("canvas");
const story = document.getElementById("story");

const orders = {
  "when sent": (a, b) => a.start - b.start || a.number - b.number,
  "longest TTFT first": (a, b) => b.ttft - a.ttft || a.number - b.number,
  "longest first": (a, b) => (b.end - b.start) - (a.end - a.start) || a.number - b.number,
  "slowest token first": (a, b) => b.slowest - a.slowest || a.number - b.number,
};
const view = { rows: [...requests].sort(orders["when sent"]), zoom: 1, bounds: [25_000, 50_000], chosen: -1 };

const kindOf = (gap) => (gap < view.bounds[0] ? "fast" : gap < view.bounds[1] ? "slow" : "slowest");

/** Neighbouring pieces of one colour are one: what is drawn depends on changes of speed, not on tokens. */
function piecesOf(request) {
  const pieces = [{ kind: "ttft", from: request.start, to: request.start + request.ttft }];
  let at = request.start + request.ttft;
  for (const gap of request.gaps) {
    const kind = kindOf(gap);
    if (pieces.at(-1).kind === kind) pieces.at(-1).to = at + gap;
    else pieces.push({ kind, from: at, to: at + gap });
    at += gap;
  }
  return pieces;
}

function layout() {
  const width = Math.max(1, port.clientWidth);
  const height = Math.max(1, port.clientHeight);
  const across = (width - NAME_PX - 12) * view.zoom;
  field.style.width = `${NAME_PX + across + 12}px`;
  field.style.height = `${Math.max(height, HEAD_PX + view.rows.length * ROW_PX + 8)}px`;
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  draw();
}

/** From microseconds to pixels of the canvas. */
const place = (micros) => NAME_PX + (micros / whole) * (port.clientWidth - NAME_PX - 12) * view.zoom - port.scrollLeft;

function draw() {
  const brush = canvas.getContext("2d");
  const [width, height] = [port.clientWidth, port.clientHeight];
  const style = getComputedStyle(canvas);
  const shade = (name) => resolve(style, `--${name}`);
  const colours = Object.fromEntries(["ttft", "fast", "slow", "slowest", "failed", "line", "muted", "card", "ink"].map((name) => [name, shade(name)]));
  brush.setTransform(devicePixelRatio || 1, 0, 0, devicePixelRatio || 1, 0, 0);
  brush.clearRect(0, 0, width, height);
  brush.font = "12px system-ui, sans-serif";
  brush.textBaseline = "middle";
  const [from, to] = [0, width].map((left) => Math.max(0, ((left + port.scrollLeft - NAME_PX) / ((width - NAME_PX - 12) * view.zoom)) * whole));
  const ticks = linearTicks(from / 1e6, Math.max(from + 1, Math.min(to, whole)) / 1e6, Math.max(2, Math.floor(width / 110)));
  brush.fillStyle = colours.line;
  for (const tick of ticks) brush.fillRect(place(tick * 1e6), HEAD_PX, 1, height);
  const first = Math.max(0, Math.floor((port.scrollTop - HEAD_PX) / ROW_PX));
  const last = Math.min(view.rows.length, Math.ceil((port.scrollTop + height) / ROW_PX) + 1);
  for (let i = first; i < last; i += 1) drawRow(brush, i, width, colours);
  brush.fillStyle = colours.card;
  brush.fillRect(0, 0, width, HEAD_PX);
  brush.fillStyle = colours.muted;
  brush.textAlign = "center";
  showAlike(ticks).forEach((label, i) => {
    const at = place(ticks[i] * 1e6);
    if (at >= NAME_PX) brush.fillText(`${label} s`, at, HEAD_PX / 2);
  });
}

function drawRow(brush, i, width, colours) {
  const request = view.rows[i];
  const top = HEAD_PX + i * ROW_PX - port.scrollTop;
  for (const piece of piecesOf(request)) {
    const [left, right] = [place(piece.from), place(piece.to)];
    if (right < NAME_PX || left > width) continue;
    brush.fillStyle = colours[piece.kind];
    brush.fillRect(left, top + 2, Math.max(0.5, right - left), ROW_PX - 4);
  }
  if (request.error != null) {
    brush.fillStyle = colours.failed;
    brush.textAlign = "left";
    brush.fillText("✕", place(request.start), top + ROW_PX / 2);
  }
  brush.fillStyle = colours.card;
  brush.fillRect(0, top, NAME_PX - 4, ROW_PX);
  brush.fillStyle = i === view.chosen ? colours.ink : colours.muted;
  brush.textAlign = "right";
  brush.fillText(String(request.number), NAME_PX - 8, top + ROW_PX / 2);
  if (i === view.chosen) {
    brush.strokeStyle = colours.ink;
    brush.strokeRect(NAME_PX - 2, top + 0.5, width, ROW_PX - 1);
  }
}

/** A colour as the canvas takes it; `light-dark()` is resolved by an element. */
function resolve(style, name) {
  const probe = resolve.probe ??= document.body.appendChild(el("i", { hidden: true }));
  probe.style.color = style.getPropertyValue(name);
  return getComputedStyle(probe).color;
}

const showMs = (micros) => `${showNumber(micros / 1000)} ms`;

function tell(i, moment = null) {
  const request = view.rows[i];
  view.chosen = request ? i : -1;
  if (request) {
    let at = request.start + request.ttft;
    let pointed = "";
    if (moment != null && moment >= request.start && moment < at) pointed = " Here: waiting for the first token.";
    if (moment != null && moment >= at) {
      const token = request.gaps.findIndex((gap) => (at += gap) > moment);
      if (token >= 0) pointed = ` Here: ${showMs(request.gaps[token])} before output event ${token + 2}.`;
    }
    story.textContent = [
      `Request ${request.number}`,
      request.prompt == null ? "" : `${showCount(request.prompt)} prompt tokens`,
      request.output == null ? "" : `${showCount(request.output)} output tokens`,
      `sent at ${showNumber(request.start / 1e6)} s`,
      request.error != null ? `failed: ${request.error}` : `TTFT ${showMs(request.ttft)}, whole ${showMs(request.end - request.start)}, slowest gap ${showMs(request.slowest)}`,
    ].filter(Boolean).join(" · ") + pointed;
  }
  draw();
}

function zoomTo(zoom) {
  const middle = (port.scrollLeft + port.clientWidth / 2) / field.offsetWidth;
  view.zoom = Math.min(4096, Math.max(1, zoom));
  layout();
  port.scrollLeft = middle * field.offsetWidth - port.clientWidth / 2;
}

function tellLegend() {
  const [low, high] = view.bounds.map((bound) => showNumber(bound / 1000));
  const names = { ttft: "time to first token", fast: `ITL < ${low} ms`, slow: `${low} ms ≤ ITL < ${high} ms`, slowest: `ITL ≥ ${high} ms` };
  const failed = requests.filter((request) => request.error != null).length;
  document.getElementById("legend").replaceChildren(
    ...Object.entries(names).map(([kind, name]) => el("li", {}, el("i", { class: `swatch ${kind}` }), name)),
    el("li", {}, `${showCount(requests.length)} requests over ${showNumber(whole / 1e6)} s${failed ? `, ${showCount(failed)} failed (✕)` : ""}`));
}

function buildControls(host) {
  const bound = (which) => el("input", { type: "number", min: 0, step: "any", value: view.bounds[which] / 1000, change: (event) => {
    const micros = Number(event.target.value) * 1000;
    if (Number.isFinite(micros) && micros >= 0) view.bounds[which] = micros;
    tellLegend();
    draw();
  } });
  const order = el("select", { change: () => {
    view.rows.sort(orders[order.value]);
    port.scrollTop = 0;
    view.chosen = -1;
    draw();
  } }, Object.keys(orders).map((name) => el("option", { value: name }, name)));
  const button = (name, label, act) => el("button", { type: "button", "aria-label": label, click: act }, name);
  host.append(
    el("label", {}, "Order", order),
    el("label", {}, "fast below (ms)", bound(0)),
    el("label", {}, "slow from (ms)", bound(1)),
    button("+", "Zoom in", () => zoomTo(view.zoom * 2)),
    button("−", "Zoom out", () => zoomTo(view.zoom / 2)),
    button("whole", "Show the whole run", () => zoomTo(1)));
}

port.addEventListener("scroll", draw);
port.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoomTo(view.zoom * (event.deltaY < 0 ? 1.5 : 1 / 1.5));
}, { passive: false });
canvas.addEventListener("pointermove", (event) => {
  const frame = canvas.getBoundingClientRect();
  const row = Math.floor((event.clientY - frame.top - HEAD_PX + port.scrollTop) / ROW_PX);
  const along = event.clientX - frame.left + port.scrollLeft - NAME_PX;
  if (event.clientY - frame.top > HEAD_PX && view.rows[row]) tell(row, (along / ((port.clientWidth - NAME_PX - 12) * view.zoom)) * whole);
});
port.addEventListener("keydown", (event) => {
  const moves = { ArrowDown: view.chosen + 1, ArrowUp: view.chosen - 1, Home: 0, End: view.rows.length - 1 };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const row = Math.min(view.rows.length - 1, Math.max(0, moves[event.key]));
  const top = HEAD_PX + row * ROW_PX;
  if (top < port.scrollTop + HEAD_PX || top + ROW_PX > port.scrollTop + port.clientHeight) port.scrollTop = top - port.clientHeight / 2;
  const left = place(view.rows[row].start);
  if (left < NAME_PX || left > port.clientWidth - NAME_PX) port.scrollLeft += left - port.clientWidth / 4;
  tell(row);
});
document.getElementById("theme").addEventListener("click", () => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
buildControls(document.getElementById("controls"));
tellLegend();
new ResizeObserver(layout).observe(port);

/** For tests. */
window.vsweep = { view, requests, piecesOf, place, draw };
