// Axes: from values to pixels, and where ticks go.

const TICK_PX = 52; // room for one tick

/**
 * A scale over some numbers; `log` only where all are positive. Settings have their ticks at the values themselves.
 * An infinite number gets the place after the last.
 */
function makeScale(numbers, log, isSetting, from, to) {
  const finite = numbers.filter(Number.isFinite);
  const steps = [...new Set(finite)].sort((a, b) => a - b);
  const isLog = log && steps[0] > 0;
  const last = steps.at(-1) ?? 1;
  const beyond = finite.length === numbers.length ? null : isLog ? last * 2 : last + (last - (steps.at(-2) ?? 0) || 1);
  const most = Math.max(2, Math.floor(Math.abs(to - from) / TICK_PX));
  const [low, padded] = isLog
    ? padLog(steps[0], beyond ?? last)
    : [Math.min(0, steps[0] ?? 0), (beyond ?? last) * 1.05 || 1];
  const round = isLog ? logTicks(low, padded) : linearTicks(low, padded, Math.min(6, most));
  const isOwn = isSetting && steps.length <= 16;
  // The last tick stands above all that is drawn.
  const isShort = !isOwn && beyond == null && round.length > 1 && round.at(-1) < last;
  if (isShort) round.push(isLog ? logTicks(low, padded * 10).find((tick) => tick >= last) : 2 * round.at(-1) - round.at(-2));
  // Its label needs room as well.
  const high = !isShort ? padded : isLog ? padLog(low, round.at(-1))[1] : 1.2 * round.at(-1) - 0.2 * round.at(-2);
  const unit = (value) => (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const place = (value) => from + (to - from) * unit(Number.isFinite(value) ? value : beyond);
  const chosen = isOwn ? [...steps] : round;
  const labels = isLog || isSetting ? chosen.map((at) => showNumber(+at.toPrecision(6))) : showAlike(chosen);
  const ticks = chosen.map((at, i) => ({ at: place(at), label: labels[i] }));
  if (beyond != null) ticks.push({ at: place(Infinity), label: "unlimited" });
  return { place, ticks: spaceOut(ticks), isLog };
}

function padLog(low, high) {
  const ratio = Math.max(high / low, 1.5) ** 0.05;
  return [low / ratio, high * ratio];
}

function linearTicks(low, high, most = 6) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) ticks.push(i * step);
  return ticks;
}

/** 1, 2, 5, 10 and so on; over many decades only their starts. */
function logTicks(low, high) {
  const factors = high / low > 3000 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of factors) ticks.push(factor * 10 ** power);
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

/** Numbers of one axis in one format: as many decimals for all, one unit for all; zero needs neither. */
function showAlike(values) {
  const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  if (most >= 1e15 || most < 1e-4) return values.map(showNumber);
  const [divisor, unit] = most >= 1e6 ? [1e6, "M"] : [1, ""];
  let decimals = 0;
  const isExact = (value) => Math.abs(Math.round((value / divisor) * 10 ** decimals) - (value / divisor) * 10 ** decimals) < 1e-6;
  while (decimals < 8 && !values.every(isExact)) decimals += 1;
  const format = new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return values.map((value) => (value === 0 ? "0" : format.format(value / divisor) + unit));
}

/** Without ticks whose labels would touch an earlier one; the last stays. */
function spaceOut(ticks) {
  const kept = [];
  const needed = (tick) => Math.min(TICK_PX, 12 + 8 * tick.label.length);
  const isFree = (tick, others) => others.every((other) => Math.abs(tick.at - other.at) >= (needed(tick) + needed(other)) / 2.2);
  const last = ticks.at(-1);
  for (const tick of ticks) if (tick === last || isFree(tick, [...kept, last])) kept.push(tick);
  return kept;
}
