// What each server did when: loading, ready, its runs, how it ended. One lane a server.

const LANE_PX = 26;

function buildTimeline(host) {
  const lanes = data.servers.map((server, index) => ({ server, index, runs: [], name: server.name || server.id }));
  for (let row = 0; row < rowCount; row += 1) {
    if (data.ended[row] != null) lanes[data.server[row]]?.runs.push(row);
  }
  const told = varying.filter((column) => column.kind === "serve");
  for (const lane of lanes) {
    const row = data.server.indexOf(lane.index);
    const settings = row < 0 ? [] : told.filter((column) => column.values[row] != null);
    if (settings.length) lane.name = settings.map((column) => settingText(column, column.values[row])).join(", ");
  }
  const shown = lanes.filter((lane) => lane.runs.length || lane.server.starts.some((start) => start.from != null));
  shown.sort((a, b) => (a.server.starts[0]?.from ?? 0) - (b.server.starts[0]?.from ?? 0));
  const moments = shown.flatMap((lane) => [...lane.server.starts.flatMap((start) => [start.to, start.from]), ...lane.runs.map((row) => data.ended[row])]);
  const end = moments.reduce((most, moment) => Math.max(most, moment ?? 0), 0);
  if (!shown.length || end <= 0) {
    host.append(el("p", { class: "empty" }, "The journal has no times to draw."));
    return;
  }
  const legend = [["loading", "loading"], ["up", "ready"], ["ok", "run ok"], ["suspect", "run in doubt"], ["failed", "run failed"], ["died", "ended by itself"]];
  const line = el("p", { class: "note", "aria-live": "polite" }, `From ${new Date(data.began).toISOString().replace("T", " ").slice(0, 16)} UTC, ${showSeconds(end)} in all. Point at a bar for its story.`);
  const port = el("div", { class: "lanes", tabindex: 0, role: "region", "aria-label": "Server timeline" });
  host.append(el("ul", { class: "legend" }, legend.map(([look, name]) => el("li", {}, el("i", { class: `swatch ${look}` }), name))), port, line);
  const draw = () => {
    const width = port.clientWidth;
    if (width) port.replaceChildren(drawLanes(shown, end, width, line));
  };
  new ResizeObserver(draw).observe(port);
}

function drawLanes(lanes, end, width, line) {
  const left = Math.min(220, width * 0.3);
  const at = (seconds) => left + ((width - left - 12) * Math.max(0, seconds)) / end;
  const height = lanes.length * LANE_PX + 30;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Timeline of ${lanes.length} servers over ${showSeconds(end)}` });
  for (const seconds of timeTicks(end)) {
    picture.append(
      svg("line", { class: "grid", x1: at(seconds), x2: at(seconds), y1: 0, y2: height - 24 }),
      svg("text", { class: "axis", x: at(seconds), y: height - 8, "text-anchor": "middle" }, showSeconds(seconds)));
  }
  lanes.forEach((lane, i) => picture.append(drawLane(lane, i * LANE_PX, at, left, end)));
  picture.addEventListener("pointermove", (event) => {
    const story = event.target.dataset?.story;
    if (story) line.textContent = story;
    else if (event.target.dataset?.lane) line.textContent = storyOfRun(lanes[event.target.dataset.lane], event, picture, at) ?? line.textContent;
  });
  return picture;
}

/** At most seven round moments: every so many seconds, minutes, hours or days. */
function timeTicks(end) {
  const counts = [[1, [1, 2, 5, 10, 15, 30]], [60, [1, 2, 5, 10, 15, 30]], [3600, [1, 2, 4, 6, 12]], [86400, [1, 2, 5, 10, 30, 100]]];
  const steps = counts.flatMap(([unit, each]) => each.map((count) => count * unit));
  const step = steps.find((candidate) => end / candidate <= 6) ?? end;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}

function drawLane(lane, top, at, left, end) {
  const group = svg("g", { transform: `translate(0 ${top})` });
  const most = Math.floor(left / 6.6);
  const { name } = lane;
  group.append(svg("text", { class: "axis lane", x: 0, y: 17 }, svg("title", {}, name), name.length > most ? `${name.slice(0, most - 1)}…` : name));
  const bar = (look, from, to, story) => svg("rect", { class: look, x: at(from), y: 4, width: Math.max(1, at(to) - at(from)), height: LANE_PX - 8, "data-story": story });
  for (const start of lane.server.starts) {
    if (start.from == null) continue;
    const to = start.to ?? end;
    const ready = start.ready == null ? to : Math.min(to, start.from + start.ready);
    group.append(bar("loading", start.from, ready, `${name}: start ${start.start}, ${start.ready == null ? "never ready" : `ready after ${showSeconds(start.ready)}`}${start.cause ? `, ended: ${start.cause.replaceAll("_", " ")}` : ""}`));
    if (start.ready != null) group.append(bar("up", ready, to, `${name}: up for ${showSeconds(to - ready)}`));
    if (start.cause) group.append(svg("path", { class: "died", d: `M${at(to)} 1V${LANE_PX - 1}`, "data-story": `${name}: ${start.cause.replaceAll("_", " ")}` }));
  }
  for (const outcome of ["ok", "suspect", "failed"]) {
    const rows = lane.runs.filter((row) => runValues("outcome")[row] === outcome);
    // A gap of a pixel between runs that follow at once, where there is room.
    const path = rows.map((row) => {
      const [from, to] = [at(data.ended[row] - data.seconds[row]), at(data.ended[row])];
      return `M${from.toFixed(1)} ${LANE_PX / 2}H${Math.max(from + 1, to - 1).toFixed(1)}`;
    });
    if (rows.length) group.append(svg("path", { class: `run ${outcome}`, d: path.join(""), "data-lane": top / LANE_PX }));
  }
  return group;
}

function storyOfRun(lane, event, picture, at) {
  const left = event.clientX - picture.getBoundingClientRect().left;
  const row = lane.runs.find((each) => at(data.ended[each] - data.seconds[each]) <= left + 1 && left - 1 <= Math.max(at(data.ended[each]), at(data.ended[each] - data.seconds[each]) + 1));
  if (row == null) return null;
  const cause = runValues("cause")[row];
  return `${settingsText(row)}: run ${runValues("run")[row]} ${runValues("outcome")[row]}${cause ? ` (${cause.replaceAll("_", " ")})` : ""}, ${showSeconds(data.seconds[row])}`;
}

buildTimeline(document.getElementById("lanes"));
