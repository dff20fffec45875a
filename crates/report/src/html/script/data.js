// The runs of the experiment, decoded from the page's JSON (made by data.rs).

const data = JSON.parse(document.getElementById("data").textContent);
const rowCount = data.rows.length;

/** Columns with one value a row in `values`. */
const columns = data.columns.map((column) => ({ ...column, values: decode(column) }));
const columnByName = new Map(columns.map((column) => [column.name, column]));
const runValues = (name) => columnByName.get(name)?.values ?? [];
const details = decode(data.details);
const benchCommands = decode(data.bench);
const fileBegins = decode(data.files.begin);
const varying = data.varying.map((name) => columnByName.get(name)).filter(Boolean);

/** A cause, or codes of doubts, in words. */
const inWords = (names) => names.split(" ").filter(Boolean).map((name) => data.words[name] ?? name).join(", ");

function decode(column) {
  // JSON has no infinite numbers.
  const number = (value) => value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
  if (column.each) return column.each.map(number);
  if (column.at) return column.at.map((place) => number(column.of[place]));
  return new Array(rowCount).fill(number(column.all));
}

/** Points with their rows; `used` are the rows their figures come from: runs that are not invalid, and not on the start without neighbours
 *  unless there is no other. */
const points = data.points.map((id, index) => ({
  id, index, rows: [], used: [], doubtful: data.suspect[index], competes: true,
  meets: data.meets?.of[data.meets.at[index]], spreads: new Map(),
}));
data.rows.forEach((place, row) => points[place].rows.push(row));
for (const point of points) {
  const planned = point.rows.filter((row) => runValues("start")[row] !== "alone");
  const rows = planned.length ? planned : point.rows;
  const ended = (outcome) => rows.filter((row) => runValues("outcome")[row] === outcome && runValues("validity")[row] !== "invalid");
  point.used = [...ended("ok"), ...ended("suspect")].sort((a, b) => a - b);
}

data.workloads.forEach((workload, place) => workload.points.forEach((index) => {
  points[index].workload = place;
  points[index].competes = workload.open || (data.competes?.[index] ?? true);
}));

/** A figure of a point, or a parameter: { median, min, max, count }; null where there is no number. A figure that the answer judges is its
 *  estimate with its interval, any other the median over the runs with the lowest and the highest. */
function spreadOf(point, column) {
  if (column.kind !== "figure") {
    const value = column.values[point.rows[0]];
    return typeof value === "number" ? { median: value, min: value, max: value, count: 1 } : null;
  }
  if (!point.spreads.has(column)) {
    const numbers = point.used.map((row) => column.values[row]).filter((value) => typeof value === "number");
    numbers.sort((a, b) => a - b);
    const estimate = data.estimates[column.name]?.[point.index];
    if (estimate && numbers.length) {
      const [value, low, high] = estimate;
      point.spreads.set(column, { median: value, min: low, max: high, count: numbers.length, isEstimate: true });
    } else point.spreads.set(column, numbers.length
      ? { median: middle(numbers), min: numbers[0], max: numbers.at(-1), count: numbers.length }
      : null);
  }
  return point.spreads.get(column);
}

/** Whether a figure has an interval; an estimate has one from the first run on. */
const hasInterval = (spread) => spread.max > spread.min;

/** Where a run's figures are, relative to the experiment; null where there are none. */
function fileOf(row) {
  const line = data.files.line[row];
  return line == null ? null : `runs/${data.points[data.rows[row]]}/${fileBegins[row]}-${line}.json`;
}

/** `TP 2`, `concurrency 32`, `no enable_x`. */
function settingText(column, value) {
  if (value == null) return `${column.short} unset`;
  if (column.short === "combo" || column.name === "command") return showValue(value); // its name says enough
  if (value === true) return column.short;
  if (value === false) return `no ${column.short}`;
  if (["in", "out"].includes(column.short)) return `${showValue(value)} ${column.short}`; // lengths
  return `${column.short} ${showValue(value)}`;
}

/** What tells a row's point from the others, by the rules of findings/variation.rs: its values of the columns that vary. */
function settingsText(row, from = varying, only = "the only point") {
  const told = from.filter((column) => column.values[row] != null);
  if (told.length) return told.map((column) => settingText(column, column.values[row])).join(", ");
  if (!from.length) return only;
  return from.length === 1 ? settingText(from[0], null) : "default settings";
}

/** A value of a column as text: figures short, settings as given. */
function valueText(column, value) {
  return column.kind === "figure" && typeof value === "number" ? showOf(column, value) : showValue(value);
}

/** A number of a column: money with its sign in front. Figures have as many digits each, unless all are whole. */
function showOf(column, value) {
  column.isWhole ??= column.kind !== "figure" || column.values.every((each) => typeof each !== "number" || Number.isInteger(each));
  return (column.title.endsWith("($)") ? "$" : "") + showNumber(value, !column.isWhole);
}

/** Whether more of a figure is better, by its name; null where it is neither (counts, parameters). */
function higherIsBetter(column) {
  if (column.kind !== "figure") return null;
  if (/_ms$|latency|errors|preemption|cost|joules|watts/.test(column.name)) return false;
  return /throughput|goodput|tokens_per/.test(column.name) ? true : null;
}
