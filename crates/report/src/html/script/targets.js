// Targets that the reader sets: which points of a workload meet them, which of those is best, and what it takes for so many users.

const isSeveral = data.workloads.length > 1;
const MOST_SERVERS = 8; // rows of the table for users
const ALIKE = 1.01; // the largest ratio of figures that no sentence makes a difference of
const LIMITS = ["p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms", "tokens_per_user", "cost_per_million_output_tokens"];
const STAND_INS = { p99_ttft_ms: "median_ttft_ms", p99_tpot_ms: "median_tpot_ms", p99_e2el_ms: "median_e2el_ms" };

const targets = {
  /** Place of the workload that is shown: points of two are not compared. */
  workload: 0,
  /** Place of the target of the plan that counts; null if any of them does. */
  planned: null,
  /** Column to the worst value that is allowed. */
  limits: new Map(),
  /** What hears of another workload. */
  chosen: [],
  shows(point) {
    return !isSeveral || point.workload === this.workload;
  },
  meets(point) {
    if (this.planned != null && !data.met[point.index].includes(this.planned)) return false;
    for (const [column, limit] of this.limits) {
      const spread = spreadOf(point, column);
      if (!spread || (higherIsBetter(column) ? spread.median < limit : spread.median > limit)) return false;
    }
    return true;
  },
};

/** What the points of a workload are to give most of. */
const goalOf = (workload) => columnByName.get(data.workloads[workload ?? 0]?.throughput);
const estimateOf = (point) => {
  const goal = goalOf(point.workload);
  return (point.used.length && goal && spreadOf(point, goal)?.median) || null;
};

const gpusOf = (point) => (columnByName.has("gpu_count") && spreadOf(point, columnByName.get("gpu_count"))?.median) || null;
/** How many of a point's servers fit on the user's GPUs; 1 where either number is unknown. */
const replicasOf = (point) => (data.gpus && gpusOf(point) ? Math.floor(data.gpus / gpusOf(point)) : 1);
const isPerGpu = (workload) => goalOf(workload)?.name === "tokens_per_gpu";

/** What a point gives on all GPUs of the user, if their number is known; null where the server needs more. */
function worthOf(point) {
  const own = estimateOf(point);
  const replicas = replicasOf(point);
  if (own == null || !replicas) return null;
  return own * (data.gpus ? replicas * (isPerGpu(point.workload) ? gpusOf(point) ?? 1 : 1) : 1);
}

function worthTitle(workload) {
  const { title } = goalOf(workload);
  return data.gpus ? `${title.replace(" per GPU", "")} on ${gpusText()}` : title;
}

function gpusText() {
  return `${showCount(data.gpus)} GPU${data.gpus === 1 ? "" : "s"}`;
}

/** Points of the workload that were measured and meet every target, the highest estimate first: `all` of them, and those whose server fits
 *  on the user's GPUs by what they give there. */
function ranking() {
  const asked = [targets.workload, targets.planned, ...[...targets.limits].flatMap(([column, limit]) => [column.name, limit])].join(" ");
  if (ranking.asked !== asked) {
    const places = points.filter((point) => point.competes && targets.shows(point) && targets.meets(point));
    const ranked = (valueOf) => places.map((point) => ({ point, value: valueOf(point) })).filter(({ value }) => value != null).sort((a, b) => b.value - a.value).map(({ point }) => point);
    ranking.found = { all: ranked(estimateOf), fitting: ranked(worthOf) };
    ranking.asked = asked;
  }
  return ranking.found;
}

/** The points to choose among. A test holds the first against the rule of the answer. */
const meeting = () => ranking().fitting;

const workloadName = (place) => data.workloads[place].name || "all";
const isSameServer = (a, b) => data.server[a.rows[0]] === data.server[b.rows[0]];
/** Settings that are the same within every workload, which names them. */
const ofWorkload = isSeveral ? varying.filter((column) => column.kind === "bench" && data.workloads.every((workload) => new Set(workload.points.map((index) => column.values[points[index].rows[0]])).size === 1)) : [];
const serverText = (point) => settingsText(point.rows[0], varying.filter((column) => column.kind !== "bench"), "the only server");
/** A point's load; empty if it is the only one. */
const loadText = (point) => settingsText(point.rows[0], varying.filter((column) => column.kind !== "serve" && !ofWorkload.includes(column)), "");
/** The server, and how many of it the figure is of. */
const manyText = (point) => `${data.gpus && replicasOf(point) > 1 ? `${showCount(replicasOf(point))} × ` : ""}${serverText(point)}`;
function atLoad(point) {
  const load = loadText(point);
  return load && ` at ${load}${data.gpus && replicasOf(point) > 1 ? " each" : ""}`;
}

/** Shows another workload. */
function chooseWorkload(place) {
  if (!isSeveral || place === targets.workload) return;
  targets.workload = place;
  remember("workload", place, 0);
  for (const listener of targets.chosen) listener(place);
  filter.changed();
}

/** Buttons that choose the workload. */
function buildWorkloads(host) {
  if (!isSeveral) return;
  const kept = Number(recall("workload") ?? 0);
  if (data.workloads[kept]) targets.workload = kept;
  const buttons = data.workloads.map((_, place) => el("button", { type: "button", click: () => chooseWorkload(place) }, workloadName(place)));
  const tell = () => buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === targets.workload)));
  targets.chosen.push(tell);
  host.append(el("span", { class: "label" }, "Workload"), ...buttons);
  tell();
}

/** A slider over the values that were measured, and one place more that allows everything. */
function limitSlider(column) {
  const isFloor = higherIsBetter(column) === true;
  const values = [...new Set(points.filter((point) => point.used.length).map((point) => spreadOf(point, column)?.median).filter(Number.isFinite))].sort((a, b) => a - b);
  if (values.length < 2) return null;
  const output = el("output", {});
  const key = `target.${column.name}`;
  const kept = Number(recall(key));
  // A limit grows to the right: of one from above the last place allows everything, of one from below the first.
  const any = isFloor ? 0 : values.length;
  const limits = isFloor ? [null, ...values] : [...values, null];
  const at = recall(key) == null ? any : limits.findIndex((limit) => limit != null && (limit >= kept || Math.abs(limit - kept) <= 1e-4 * kept));
  const input = el("input", { type: "range", min: 0, max: values.length, value: at < 0 ? any : at });
  const read = () => {
    const limit = limits[Number(input.value)];
    if (limit == null) targets.limits.delete(column);
    else targets.limits.set(column, limit);
    const text = limit == null ? "any" : `${isFloor ? "at least" : "at most"} ${showNumber(limit)}`;
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  input.addEventListener("input", () => {
    read();
    const limit = targets.limits.get(column);
    remember(key, limit == null ? null : +limit.toPrecision(6));
    filter.changed();
  });
  read();
  return { label: el("label", { class: "slider" }, el("span", {}, column.title), input, output), clear: () => {
    input.value = any;
    read();
    remember(key, null);
  } };
}

/** A choice among the targets of the plan, the first one to begin with; null if there are fewer than two. */
function plannedTarget() {
  const names = data.targets ?? [];
  if (names.length < 2) return null;
  const select = el("select", {}, names.map((name, place) => el("option", { value: place }, name)), el("option", { value: "" }, "any of them"));
  keepChoice("planned", select);
  const read = () => {
    targets.planned = select.value === "" ? null : Number(select.value);
  };
  select.addEventListener("change", () => {
    read();
    filter.changed();
  });
  read();
  return el("label", {}, "Target of the plan ", select);
}

/** The sliders, and what to run if they are to be met. */
function buildTargets(host) {
  const measured = (name) => columnByName.get(name) ?? columnByName.get(STAND_INS[name]);
  const sliders = data.workloads.some((_, place) => goalOf(place)) ? [...new Set(LIMITS.map(measured).filter(Boolean))].map(limitSlider).filter(Boolean) : [];
  if (!sliders.length) {
    host.closest("article").hidden = true;
    return;
  }
  const answer = el("div", { role: "status" });
  const reset = el("button", { type: "button", click: () => {
    for (const slider of sliders) slider.clear();
    filter.changed();
  } }, "Reset");
  host.append(...[plannedTarget()].filter(Boolean), el("div", { class: "sliders" }, sliders.map((slider) => slider.label)), reset, answer);
  const tell = () => {
    reset.disabled = !targets.limits.size;
    answer.replaceChildren(...winnerOf(targets.workload, meeting()));
  };
  filter.listeners.push(tell);
  tell();
}

function winnerOf(place, ranked) {
  const lead = isSeveral ? `${workloadName(place)}: ` : "";
  const [best] = ranked;
  if (!best) return [el("p", { class: "caution" }, `${lead}No point ${ranking().all.length ? `of a server that fits on ${gpusText()} ` : ""}meets these targets.`)];
  const next = ranked.find((point) => !isSameServer(point, best));
  const [own, other] = [worthOf(best), next && worthOf(next)];
  const times = own / other <= ALIKE ? "within 1 % of" : own / other < 2 ? `${((own / other - 1) * 100).toFixed(0)} % more than` : `${showNumber(own / other)} times`;
  const ratio = next ? `, ${times} the next best server, ${manyText(next)}` : "";
  const doubt = best.doubtful ? " Its figures are in doubt." : "";
  const nodesOf = (point) => [...new Set(point.rows.map((row) => columnByName.get("node")?.values[row] ?? ""))].sort().join(", ");
  const apart = next && nodesOf(best) !== nodesOf(next) ? ` It was measured on ${nodesOf(best)}, the next best server on ${nodesOf(next)}.` : "";
  return [
    el("p", { class: "winner" }, `${lead}Highest estimate within these limits, by `, el("strong", {}, worthTitle(place)), ": ", el("strong", {}, manyText(best)), `${atLoad(best)}, ${showNumber(own)}${ratio}.${doubt}${apart} ${ranked.length === 1 ? "1 point meets" : `${showCount(ranked.length)} points meet`} the targets.`),
    el("details", {}, el("summary", {}, "Command lines"), commandBlocks(best.rows[0])),
  ];
}

/** The users of a point: the slots of a closed loop that filled them, else its requests in flight on average. */
function usersOf(point) {
  const [slots, rate, peak] = ["max_concurrency", "request_rate", "peak_concurrent_requests"].map((name) => Number(columnByName.get(name)?.values[point.rows[0]]));
  return slots > 0 && !(rate > 0 && rate < Infinity) && !(peak > 0 && peak < 0.9 * slots) ? slots : spreadOf(point, columnByName.get("user_count_estimate"))?.median;
}

/** How many GPUs a number of users takes with each server, with room to spare. */
function buildUsers(host) {
  const [users, gpus] = ["user_count_estimate", "gpu_count"].map((name) => columnByName.get(name));
  const speed = columnByName.get("tokens_per_user");
  if (!goalOf(0) || !users || !speed) {
    host.closest("article").hidden = true;
    return;
  }
  if (!gpus) {
    host.append(el("p", { class: "note" }, "The number of GPUs of a server is not known; state it as tensor_parallel_size in [serve.params], and run the plan again."));
    return;
  }
  const field = (key, label, usual, step) => {
    const input = el("input", { type: "number", min: 0, step, value: recall(key) ?? usual });
    input.addEventListener("input", () => {
      remember(key, input.value, String(usual));
      tell();
    });
    return { input, label: el("label", {}, label, input) };
  };
  const fields = [field("users", "Users at once", 1000, 1), field("headroom", "Headroom (%)", 20, 1), field("price", "Price per GPU-hour ($)", data.price ?? "", 0.01)];
  const port = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "GPUs for that many users" });
  const note = el("p", { class: "note" });
  const asked = el("p", { role: "status" });
  host.append(el("div", { class: "controls" }, fields.map((one) => one.label)), asked, port, note);

  const tell = () => {
    const [wanted, room, price] = fields.map(({ input }) => (input.value === "" ? NaN : Number(input.value)));
    const [count, headroom] = [Math.ceil(wanted), Math.max(0, room)];
    asked.textContent = count > 0 ? `${showCount(count)} users at once, ${showNumber(headroom || 0)} % headroom${price > 0 ? `, $${showNumber(price)} per GPU-hour` : ""}:` : "Say how many users.";
    const best = new Map();
    // So many users may need more GPUs than there are, so no server is too large.
    for (const point of ranking().all) {
      const [own, held, size] = [usersOf(point), ...[speed, gpus].map((column) => spreadOf(point, column)?.median)];
      if (!(own > 0 && held > 0 && size > 0) || !(count > 0)) continue;
      const servers = Math.ceil(count / own);
      const safe = Math.ceil((count * (1 + (headroom || 0) / 100)) / own) + 1;
      const hour = price > 0 ? safe * size * price : null;
      const row = { point, own, servers, gpus: servers * size, safe: safe * size, hour, million: hour == null ? null : (hour / 3600 / (count * held)) * 1e6 };
      const key = `${point.workload}/${data.server[point.rows[0]]}`;
      const known = best.get(key);
      if (!known || row.safe < known.safe || (row.safe === known.safe && row.gpus < known.gpus)) best.set(key, row);
    }
    const ranked = [...best.values()].sort((a, b) => a.safe - b.safe || a.gpus - b.gpus);
    const rows = ranked.slice(0, MOST_SERVERS);
    const more = ranked.length > rows.length ? ` Further servers that need no fewer: ${showCount(ranked.length - rows.length)}.` : "";
    note.textContent = `The load of each server that needs the fewest GPUs and meets the targets above.${more} Users per server: concurrency, or at a rate the requests in flight on average. With spare: the headroom is added, and one standby server. Cost covers those GPUs; the cost per million tokens assumes exactly that many users.`;
    const money = (value) => (value == null ? "–" : `$${showNumber(value, true)}`);
    const heads = ["Server", "Load", "Users per server", "Servers", "GPUs", "GPUs with headroom and spare", "Cost per hour", "Cost per million output tokens"];
    const cells = rows.map((row) => [loadText(row.point) || "the only load", showNumber(row.own), showCount(row.servers), showCount(row.gpus), showCount(row.safe), money(row.hour), money(row.million)]);
    port.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.length
        ? rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, serverText(row.point)), cells[i].map((cell, j) => el("td", { "data-head": heads[j + 1] }, cell))))
        : el("tr", {}, el("td", { colspan: heads.length, class: "empty" }, count > 0 ? "No point meets the targets." : "")))));
  };
  filter.listeners.push(tell);
  tell();
}
