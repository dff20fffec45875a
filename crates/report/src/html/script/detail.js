// Everything about one point or one run: in the box beside a chart's point, and in the dialog of a row.

/** Settings, the given figures, all parameters and the command lines of a point. */
function describePoint(point, shown) {
  const row = point.rows[0];
  const figures = shown.map((column) => [column.title, spreadText(spreadOf(point, column))]);
  return [
    el("h4", {}, settingsText(row)),
    facts(point.meets == null ? figures : [["Meets", point.meets], ...figures]),
    runsLine(point),
    commandBlocks(row),
    el("details", { open: true }, el("summary", {}, "All parameters"), facts(parametersOf(row))),
  ];
}

const MOST_BRIEF = 4;

/** What a pointer over a point shows: few lines, so that the box hides little. */
function briefly(point, shown) {
  const { throughput, latency } = data.workloads[point.workload];
  const more = [throughput, ...(throughput === data.pareto[1] ? [data.pareto[0], "p99_ttft_ms", "p99_tpot_ms"] : []), latency].map((name) => columnByName.get(name));
  const told = [...new Set([...shown, ...more])].filter((column) => column && spreadOf(point, column)).slice(0, MOST_BRIEF);
  return [
    el("h4", {}, settingsText(point.rows[0])),
    facts(told.map((column) => [column.title, showOf(column, spreadOf(point, column).median)])),
    el("p", { class: "count" }, "Click for commands, runs and settings."),
  ];
}

function spreadText(spread) {
  if (!spread) return "–";
  if (!hasInterval(spread)) return showNumber(spread.median);
  const [median, min, max] = showTogether([spread.median, spread.min, spread.max]);
  const runs = `${spread.count} run${spread.count === 1 ? "" : "s"}`;
  return spread.isEstimate ? `${median} (${min} to ${max}, ${runs})` : `${median} (${runs}: ${min} to ${max})`;
}

/** How the runs of a point ended: `2 ok, 1 failed`. */
function outcomesOf(point) {
  const counts = new Map();
  for (const row of point.rows) {
    const outcome = runValues("outcome")[row];
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
}

function runsLine(point) {
  const codes = [...new Set(point.rows.map((row) => runValues("codes")[row]).filter(Boolean).flatMap((codes) => codes.split(" ")))];
  const doubts = codes.length ? ` · ${inWords(codes.join(" "))}` : "";
  return el("p", { class: "count" }, `Runs: ${outcomesOf(point)}${doubts} · point ${point.id} `, el("button", { type: "button", click: () => openPoint(point) }, "Open its runs"));
}

function parametersOf(row) {
  const parameters = columns.filter((column) => column.kind === "serve" || column.kind === "bench");
  return parameters.filter((column) => column.values[row] != null).map((column) => [column.name, showValue(column.values[row])]);
}

function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function commandBlocks(row) {
  const server = data.servers[data.server[row]]?.command;
  return [server && codeBlock(server, "the server's command line"), codeBlock(benchCommands[row], "the benchmark's command line")];
}

const dialog = document.getElementById("detail");
dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

/** Figures that are told of each run of a point. */
const TOLD = ["output_throughput", "tokens_per_gpu", "p99_ttft_ms", "p99_tpot_ms"];

/** Opens the dialog on one point: its runs with how far each may be believed and where its file is, all figures, its commands. */
function openPoint(point) {
  const { throughput, latency } = data.workloads[point.workload];
  const told = [...new Set([...TOLD, throughput, latency])].map((name) => columnByName.get(name)).filter((column) => column && spreadOf(point, column));
  const measured = columns.filter((column) => column.kind === "figure" && spreadOf(point, column));
  const heads = ["Run", "Outcome", "Validity", "Doubts or cause", ...told.map((column) => column.title), "File"];
  const doubts = (row) => inWords([runValues("codes")[row], runValues("cause")[row]].filter(Boolean).join(" ")) || "–";
  const body = point.rows.map((row) => el("tr", {},
    el("th", { scope: "row" }, el("button", { type: "button", "aria-label": `Open run ${runValues("run")[row]}`, click: () => openRun(row) }, showValue(runValues("run")[row]))),
    el("td", {}, outcomeTag(row)), el("td", {}, showValue(runValues("validity")[row])), el("td", {}, doubts(row)),
    told.map((column) => el("td", {}, valueText(column, column.values[row]))),
    el("td", {}, fileOf(row) ? el("code", {}, fileOf(row)) : "–")));
  showDialog("One point",
    el("h3", {}, settingsText(point.rows[0])),
    el("p", {}, `Point ${point.id}: ${outcomesOf(point)}. Its figures are estimates from ${point.used.length === 1 ? "1 run" : `${point.used.length} runs`}.`),
    point.meets == null ? "" : el("p", {}, `Meets ${point.meets}.`),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Runs of the point" },
      el("table", { class: "of-point" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, body))),
    ...[sideButtons(point), ...commandBlocks(point.rows[0])].filter(Boolean),
    el("h4", {}, "Figures"), facts(measured.map((column) => [column.title, spreadText(spreadOf(point, column))])),
    el("h4", {}, "Parameters"), facts(parametersOf(point.rows[0])));
}

/** Puts what is given in the dialog, and opens it if it is not. */
function showDialog(label, ...content) {
  dialog.setAttribute("aria-label", label);
  dialog.querySelector(".content").replaceChildren(...content);
  dialog.scrollTop = 0;
  if (!dialog.open) dialog.showModal();
}

/** Opens the dialog on one run. */
function openRun(row) {
  const figures = columns.filter((column) => column.kind === "figure" && column.values[row] != null);
  const cause = runValues("cause")[row];
  const point = points[data.rows[row]];
  showDialog("One run",
    el("h3", {}, settingsText(row)),
    el("p", {}, outcomeTag(row), ` run ${runValues("run")[row]} of point ${point.id} `, el("button", { type: "button", click: () => openPoint(point) }, "Open its runs")),
    fileOf(row) ? el("p", { class: "count" }, "File: ", el("code", {}, fileOf(row))) : "",
    cause ? el("p", { class: "detail" }, el("strong", {}, inWords(cause)), details[row] ? `: ${details[row]}` : "") : "",
    ...commandBlocks(row).filter(Boolean),
    el("h4", {}, "Parameters"), facts(parametersOf(row)),
    el("h4", {}, "Figures"), facts(figures.map((column) => [column.title, valueText(column, column.values[row])])),
    ...(watchedByRow.has(row) ? [el("h4", {}, "Telemetry"), watchedCharts(watchedByRow.get(row))] : []));
}

function outcomeTag(row) {
  const outcome = runValues("outcome")[row];
  return el("span", { class: `tag ${outcome}` }, outcome);
}
