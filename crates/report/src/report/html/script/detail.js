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
  const more = ["tokens_per_gpu", "tokens_per_user", "p99_ttft_ms", "p99_tpot_ms"].map((name) => columnByName.get(name));
  const told = [...new Set([...shown, ...more])].filter((column) => column && spreadOf(point, column)).slice(0, MOST_BRIEF);
  return [
    el("h4", {}, settingsText(point.rows[0])),
    facts(told.map((column) => [column.title, showNumber(spreadOf(point, column).median)])),
    el("p", { class: "count" }, "Click for commands, runs and settings."),
  ];
}

function spreadText(spread) {
  if (!spread) return "–";
  const range = spread.count > 1 ? ` (${showNumber(spread.min)} to ${showNumber(spread.max)}, ${spread.count} runs)` : "";
  return showNumber(spread.median) + range;
}

function runsLine(point) {
  const counts = new Map();
  for (const row of point.rows) {
    const outcome = runValues("outcome")[row];
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  const text = [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  const codes = [...new Set(point.rows.map((row) => runValues("codes")[row]).filter(Boolean).flatMap((codes) => codes.split(" ")))];
  const doubts = codes.length ? ` · ${codes.join(", ").replaceAll("_", " ")}` : "";
  return el("p", { class: "count" }, `Runs: ${text}${doubts} · point ${point.id}`);
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

/** Opens the dialog on one run. */
function openRun(row) {
  const figures = columns.filter((column) => column.kind === "figure" && column.values[row] != null);
  const cause = runValues("cause")[row];
  dialog.querySelector(".content").replaceChildren(
    el("h3", {}, settingsText(row)),
    el("p", {}, outcomeTag(row), ` run ${runValues("run")[row]} of point ${points[data.rows[row]].id}`),
    cause ? el("p", { class: "detail" }, el("strong", {}, cause.replaceAll("_", " ")), details[row] ? `: ${details[row]}` : "") : "",
    ...commandBlocks(row).filter(Boolean),
    el("h4", {}, "Parameters"), facts(parametersOf(row)),
    el("h4", {}, "Figures"), facts(figures.map((column) => [column.title, cellText(column, row)])),
    ...(watchedByRow.has(row) ? [el("h4", {}, "Telemetry"), watchedCharts(watchedByRow.get(row))] : []));
  dialog.showModal();
}

function outcomeTag(row) {
  const outcome = runValues("outcome")[row];
  return el("span", { class: `tag ${outcome}` }, outcome);
}
