// What ran when and where: starts with their phases, runs, how each ended. One lane a server, or one a GPU where several are known.

const LANE_PX = 26;
const AXIS_PX = 24;
const CLOCK_TICK_PX = 84;
const LETTER_PX = 6.6;

function buildTimeline(host) {
  const starts = allStarts();
  const end = starts.reduce((most, start) => Math.max(most, start.from ?? 0, start.to ?? 0, ...start.runs.map((row) => data.ended[row])), 0);
  if (!starts.length || end <= 0) {
    host.append(el("p", { class: "empty" }, "The journal has no times to draw."));
    return;
  }
  for (const start of starts) start.until = start.to ?? (start.from == null ? null : Math.max(start.from, start.known ?? end));
  const nodes = new Set(starts.map((start) => start.node).filter(Boolean));
  const gpus = new Set(starts.flatMap((start) => start.gpus.map((gpu) => `${start.node} ${gpu}`)));
  const views = { servers: ["By server", () => lanesOfServers(starts, nodes.size > 1)] };
  if (gpus.size > 1) views.gpus = ["By GPU", () => lanesOfGpus(starts, nodes.size > 1)];
  else if (nodes.size > 1) views.gpus = ["By node", () => lanesOfNodes(starts)];
  let view = views.gpus ? "gpus" : "servers";
  const looks = [["loading", "starting"], ["loading model", "loading the model"], ["loading engine", "compiling, graphs, KV cache"], ["up", "between runs"], ["reset", "resetting caches"], ["warmup", "warm-up"], ["stopping", "stopping"], ["ok", "run ok"], ["suspect", "run suspect"], ["failed", "run failed"], ["died", "failed or ended by itself"]];
  const line = el("p", { class: "note", "aria-live": "polite" }, `From ${moment(0)} UTC, ${showSeconds(end)} in all; clock times are UTC. Point at a bar for details, or step through them with the arrow keys.`);
  const port = el("div", { class: "lanes", tabindex: 0, role: "region", "aria-label": "Server timeline" });
  let told = -1;
  port.addEventListener("keydown", (event) => {
    const stories = [...new Set([...port.querySelectorAll("[data-story]")].map((bar) => bar.dataset.story))];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !stories.length) return;
    event.preventDefault();
    told = Math.min(Math.max(told + step, 0), stories.length - 1);
    line.textContent = stories[told];
  });
  const legend = el("ul", { class: "legend" });
  const draw = () => {
    const width = port.clientWidth - 20;
    if (width <= 0) return;
    port.replaceChildren(...drawLanes(views[view][1](), end, width, line));
    const drawn = looks.filter(([look]) => port.querySelector(`.${look.replace(" ", ".")}`));
    legend.replaceChildren(...drawn.map(([look, name]) => el("li", {}, el("i", { class: `swatch ${look}` }), name)));
  };
  const button = ([name, [title]]) => el("button", { type: "button", "aria-pressed": String(name === view), click: (event) => {
    view = name;
    for (const other of event.target.parentElement.children) other.setAttribute("aria-pressed", String(other === event.target));
    draw();
  } }, title);
  const buttons = Object.entries(views).map(button);
  if (buttons.length > 1) host.append(el("div", { class: "controls tabs", role: "group", "aria-label": "Lanes of the timeline" }, buttons));
  host.append(legend, port, line);
  new ResizeObserver(draw).observe(port);
}

/** The starts of all servers with their runs, in the order in which they began. */
function allStarts() {
  const names = namesOfServers();
  const byServer = data.servers.map((server, index) => server.starts.map((start) => ({ ...start, server: index, name: names[index], gpus: start.gpus ?? [], node: start.node ?? "", runs: [] })));
  for (let row = 0; row < rowCount; row += 1) {
    if (data.ended[row] == null) continue;
    const own = byServer[data.server[row]];
    if (!own) continue;
    let start = own[data.start[row]];
    if (!start) {
      // Nobody knows on which one it was measured.
      start = own.find((other) => other.from == null && !other.start);
      if (!start) own.push(start = { server: data.server[row], name: names[data.server[row]], gpus: [], node: "", runs: [] });
    }
    start.runs.push(row);
  }
  const all = byServer.flat().filter((start) => start.from != null || start.runs.length);
  for (const start of all) start.runs.sort((a, b) => data.ended[a] - data.ended[b]);
  const begin = (start) => start.from ?? measuring(start.runs[0]);
  return all.sort((a, b) => begin(a) - begin(b));
}

/** What tells each server from the others; its id beside it where settings do not. */
function namesOfServers() {
  const told = varying.filter((column) => column.kind === "serve");
  const names = data.servers.map((server, index) => {
    const row = data.server.indexOf(index);
    const settings = row < 0 ? [] : told.filter((column) => column.values[row] != null);
    return settings.length ? settings.map((column) => settingText(column, column.values[row])).join(", ") : server.name || server.id;
  });
  return names.map((name, index) => (names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${data.servers[index].id})`));
}

/** The same without the names of the settings, for where those find no room; nothing where that tells too little. */
function briefNames() {
  const told = varying.filter((column) => column.kind === "serve");
  const names = data.servers.map((_, index) => told.map((column) => column.values[data.server.indexOf(index)] ?? "–").join("/"));
  return new Set(names).size === names.length ? names : [];
}

/** `start 2 of max num seqs 64, on n0, GPUs 0, 1` */
function whereabouts(start) {
  const gpus = start.gpus.length ? `${start.gpus.length > 1 ? "GPUs" : "GPU"} ${start.gpus.join(", ")}` : "";
  const places = [start.node, gpus].filter(Boolean).join(", ");
  return places ? ` on ${places}` : "";
}

function lanesOfServers(starts, onSeveralNodes) {
  const lanes = new Map();
  for (const start of starts) gather(lanes, start.server, start);
  const briefs = briefNames();
  const told = varying.filter((column) => column.kind === "serve");
  const value = (column, server) => column.values[data.server.indexOf(server)] ?? "";
  const compare = (a, b) => String(a).localeCompare(String(b), undefined, { numeric: true });
  // By their settings; the sort keeps servers of equal ones in the order in which they began.
  const ordered = [...lanes].sort(([a], [b]) => told.reduce((order, column) => order || compare(value(column, a), value(column, b)), 0));
  return ordered.map(([server, own]) => ({ name: own[0].name, brief: briefs[server], starts: own, tags: own.map((start) => (onSeveralNodes ? start.node : "")) }));
}

function lanesOfGpus(starts, onSeveralNodes) {
  const lanes = new Map();
  for (const start of starts) {
    const places = start.gpus.length ? start.gpus.map((gpu) => [start.node, gpu]) : [[start.node, null]];
    for (const [node, gpu] of places) {
      const name = gpu == null ? "no GPU of its own" : `GPU ${gpu}`;
      const lane = lanes.get(`${node} ${gpu}`) ?? { name: onSeveralNodes ? `${node} ${name}` : name, node, gpu: gpu ?? Infinity, starts: [], tags: [] };
      lane.starts.push(start);
      lane.tags.push(start.name);
      lanes.set(`${node} ${gpu}`, lane);
    }
  }
  return [...lanes.values()].sort((a, b) => compareValues(a.node, b.node) || a.gpu - b.gpu);
}

function lanesOfNodes(starts) {
  const lanes = new Map();
  for (const start of starts) gather(lanes, start.node || "unknown node", start);
  return [...lanes].sort().map(([name, own]) => ({ name, starts: own, tags: own.map((start) => start.name) }));
}

/** The axis, which stays in sight, and the lanes below it. */
function drawLanes(lanes, end, width, line) {
  const longest = LETTER_PX * lanes.reduce((most, lane) => Math.max(most, lane.name.length), 0);
  const left = Math.min(longest + 8, width * 0.34);
  const at = (seconds) => left + ((width - left - 12) * Math.max(0, seconds)) / end;
  const height = lanes.length * LANE_PX + 6;
  const axis = svg("svg", { class: "clock", width, height: AXIS_PX, viewBox: `0 0 ${width} ${AXIS_PX}`, "aria-hidden": "true" });
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Timeline of ${lanes.length} lanes over ${showSeconds(end)}` });
  for (const { seconds, label } of clockTicks(end, Math.max(2, Math.floor((width - left) / CLOCK_TICK_PX)))) {
    axis.append(svg("text", { class: "axis", x: at(seconds), y: 15, "text-anchor": at(seconds) > width - 40 ? "end" : at(seconds) < 30 ? "start" : "middle" }, label));
    picture.append(svg("line", { class: "grid", x1: at(seconds), x2: at(seconds), y1: 0, y2: height }));
  }
  lanes.forEach((lane, i) => picture.append(drawLane(lane, i, at, left, longest > left)));
  picture.addEventListener("pointermove", (event) => {
    const { story, lane } = event.target.dataset ?? {};
    if (story) line.textContent = story;
    else if (lane) line.textContent = storyOfRun(lanes[lane], event, picture, at) ?? line.textContent;
  });
  const told = varying.filter((column) => column.kind === "serve").map((column) => column.short);
  return longest > left && lanes.some((lane) => lane.brief) ? [el("div", { class: "remark" }, told.join("/")), axis, picture] : [axis, picture];
}

/** Seconds after the beginning as a clock time. */
function moment(seconds, from = 0, to = 16) {
  return new Date(Date.parse(data.began) + seconds * 1000).toISOString().replace("T", " ").slice(from, to);
}

/** Round clock times, at most so many; the first of each day with its date. */
function clockTicks(end, most) {
  const counts = [[1, [1, 2, 5, 10, 15, 30]], [60, [1, 2, 5, 10, 15, 30]], [3600, [1, 2, 4, 6, 12]], [86400, [1, 2, 5, 10, 30, 100]]];
  const steps = counts.flatMap(([unit, each]) => each.map((count) => count * unit));
  const step = steps.find((candidate) => end / candidate <= most) ?? end;
  const began = Date.parse(data.began) / 1000;
  const ticks = [];
  let day = moment(0, 0, 10);
  for (let clock = Math.ceil(began / step) * step; clock <= began + end; clock += step) {
    const seconds = clock - began;
    const isNewDay = moment(seconds, 0, 10) !== day;
    day = moment(seconds, 0, 10);
    ticks.push({ seconds, label: step >= 86400 ? day : `${isNewDay ? `${day.slice(5)} ` : ""}${moment(seconds, 11, step < 60 ? 19 : 16)}` });
  }
  return ticks.length ? ticks : [{ seconds: 0, label: moment(0, 11, 19) }];
}

function drawLane(lane, place, at, left, isBrief) {
  const group = svg("g", { transform: `translate(0 ${place * LANE_PX})` });
  const most = Math.floor(left / LETTER_PX);
  const short = (name, room) => (name.length > room ? `${name.slice(0, Math.max(0, room - 1))}…` : name);
  group.append(svg("text", { class: "axis lane", x: 0, y: 17 }, svg("title", {}, lane.name), short((isBrief && lane.brief) || lane.name, most)));
  const tags = [];
  lane.starts.forEach((start, i) => {
    if (start.from == null) return;
    group.append(...drawStart(start, at));
    // A name on its bar, where there is room for some of it.
    const room = Math.floor((at(start.until) - at(start.from) - 6) / 6.2);
    if (lane.tags[i] && room > 3) tags.push(svg("text", { class: "tag", x: at(start.from) + 3, y: 9 }, short(lane.tags[i], room)));
  });
  const rows = lane.starts.flatMap((start) => start.runs);
  // A gap of a pixel between what follows at once, where there is room.
  const span = (from, to) => `M${at(from).toFixed(1)} ${LANE_PX / 2 + 3}H${Math.max(at(from) + 1, at(to) - 1).toFixed(1)}`;
  const draw = (look, spans) => {
    if (spans.length) group.append(svg("path", { class: `run ${look}`, d: spans.join(""), "data-lane": place }));
  };
  draw("reset", rows.filter((row) => data.resets[row]).map((row) => span(begun(row), begun(row) + data.resets[row])));
  draw("warmup", rows.filter((row) => data.warmups[row]).map((row) => span(measuring(row) - data.warmups[row], measuring(row))));
  for (const outcome of ["ok", "suspect", "failed"]) {
    draw(outcome, rows.filter((row) => runValues("outcome")[row] === outcome).map((row) => span(measuring(row), data.ended[row])));
  }
  group.append(...tags);
  return group;
}

/** When a run began to measure, and when its reset or warm-up began. */
const measuring = (row) => data.ended[row] - data.seconds[row];
const begun = (row) => measuring(row) - (data.warmups[row] ?? 0) - (data.resets[row] ?? 0);

/** The bar of a start: its phases, then ready, then its stop. */
function drawStart(start, at) {
  const told = `${start.name}: start ${start.start}${whereabouts(start)}`;
  const bars = [];
  const bar = (look, from, to, story) => bars.push(svg("rect", { class: look, x: at(from), y: 4, width: Math.max(1, at(to) - at(from)), height: LANE_PX - 6, "data-story": story }));
  const ready = start.ready == null ? start.until : Math.min(start.until, start.from + start.ready);
  const why = start.cause ? `, ended: ${inWords(start.cause)}` : "";
  const phase = (name) => (start.ready == null ? 0 : columnByName.get(`startup_${name}_s`)?.values[start.runs[0]] ?? 0);
  const [model, engine] = [phase("model"), phase("engine")];
  const parts = [["weights", "weights"], ["model", "model"], ["compile", "compilation"], ["graphs", "graphs"], ["engine", "engine"]].filter(([name]) => phase(name));
  const phases = parts.length ? ` (${parts.map(([name, title]) => `${title} ${showSeconds(phase(name))}`).join(", ")})` : "";
  const story = `${told}, ${start.ready == null ? "never ready" : `ready after ${showSeconds(start.ready)}${phases}`}, launched ${moment(start.from, 11, 19)}${why}`;
  const loaded = Math.max(start.from, ready - engine);
  const unloaded = Math.max(start.from, loaded - model);
  for (const [look, from, to] of [["loading", start.from, unloaded], ["loading model", unloaded, loaded], ["loading engine", loaded, ready]]) {
    if (to > from) bar(look, from, to, story);
  }
  if (start.ready != null) {
    const last = start.to == null || start.cause ? start.until : Math.max(ready, start.until - (start.stop ?? 0));
    bar("up", ready, last, `${told}: ready ${moment(ready, 11, 19)}, up for ${showSeconds(start.until - ready)}${why}`);
    if (last < start.until) bar("stopping", last, start.until, `${told}: stopped ${moment(start.until, 11, 19)} after ${showSeconds(start.until - last)}`);
  }
  if (start.cause) bars.push(svg("path", { class: "died", d: `M${at(start.until)} 1V${LANE_PX - 1}`, "data-story": `${told}, ${moment(start.until, 11, 19)}: ${inWords(start.cause)}` }));
  return bars;
}

function storyOfRun(lane, event, picture, at) {
  const left = event.clientX - picture.getBoundingClientRect().left;
  const isAt = (row) => at(begun(row)) <= left + 1 && left - 1 <= Math.max(at(data.ended[row]), at(begun(row)) + 1);
  const start = lane.starts.find((each) => each.runs.some(isAt));
  const row = start?.runs.find(isAt);
  if (row == null) return null;
  const cause = runValues("cause")[row];
  const before = [["reset", data.resets[row]], ["warm-up", data.warmups[row]]].filter(([, seconds]) => seconds).map(([what, seconds]) => `${what} ${showSeconds(seconds)}`);
  return `${settingsText(row)}: run ${runValues("run")[row]} ${runValues("outcome")[row]}${cause ? ` (${inWords(cause)})` : ""}, ${moment(measuring(row), 11, 19)}, ${showSeconds(data.seconds[row])}${before.length ? ` after ${before.join(" and ")}` : ""}${whereabouts(start)}`;
}

buildTimeline(document.getElementById("lanes"));
