// The table of points, or of their runs: sorted and searched here, with only the rows in view as elements, so that 10 000 stay usable.

const ROW_PX = 30;
const OVERSCAN = 8;
const MOST_PRINTED = 60;
const MAIN_FIGURES = [...data.workloads.flatMap((workload) => [workload.throughput, workload.latency]), "output_throughput", "request_throughput", "tokens_per_gpu", "tokens_per_user", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "p99_e2el_ms", ...(data.of_classes ?? [])];

/** What a row of the table is. Items are numbers: of a point or of a run. */
const LISTED = {
  points: {
    what: "points", count: points.length,
    // The best first, what was not measured last.
    items: points.map((point) => point.index).sort((a, b) => worth(points[b]) - worth(points[a]) || a - b),
    passes: (index) => points[index].rows.some((row) => filter.passes(row)),
    row: (index) => points[index].rows[0],
    rows: (index) => points[index].rows,
    value: (index, column) => (column.kind === "figure" ? spreadOf(points[index], column)?.median : column.values[points[index].rows[0]]),
    open: (index) => openPoint(points[index]),
    skipped: ["outcome", "validity", "codes", "cause", "run"],
  },
  runs: {
    what: "runs", count: rowCount,
    items: Array.from({ length: rowCount }, (_, row) => row),
    passes: (row) => filter.passes(row),
    row: (row) => row,
    rows: (row) => [row],
    value: (row, column) => column.values[row],
    open: (row) => openRun(row),
    skipped: [],
  },
};

/** How much a point gives of what is wanted; what was not measured gives least. */
function worth(point) {
  if (!point.used.length) return -2;
  return worthOf(point) ?? -1;
}

class Table {
  constructor(host) {
    this.order = null; // { column, down }
    this.text = "";
    this.all = false;
    this.texts = {};
    const listed = el("select", { change: () => {
      this.listed = LISTED[listed.value];
      this.order = null;
      this.build();
    } }, Object.keys(LISTED).map((name) => el("option", { value: name }, name)));
    keepChoice("rows", listed);
    this.listed = LISTED[listed.value];
    const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search points and runs", input: () => {
      this.text = search.value.trim().toLowerCase();
      this.update();
    } });
    const wide = toggle("all columns", () => {
      this.all = !this.all;
      this.build();
    });
    this.count = el("span", { class: "count", role: "status" });
    this.table = el("table", { class: "runs" });
    // Kept, because to ask the page for it would lay it out first.
    this.scrolled = 0;
    this.port = el("div", { class: "port", tabindex: 0, role: "region", "aria-label": "Points and runs", scroll: () => {
      this.scrolled = this.port.scrollTop;
      this.draw();
    } }, this.table);
    host.append(el("div", { class: "controls" }, el("label", {}, "Rows", listed), search, wide, this.count), this.port);
    this.redraw = whenSeen(host, () => this.draw());
    filter.listeners.push(() => this.update());
    this.build();
    host.closest("details").addEventListener("toggle", () => this.draw());
    isNarrow.addEventListener("change", () => this.build());
    addEventListener("beforeprint", () => this.draw(MOST_PRINTED));
    addEventListener("afterprint", () => this.draw());
  }

  /** Columns, widths and heads; then the rows. */
  build() {
    const kinds = ["serve", "bench"];
    const isMain = (column) => ["outcome", "validity", "codes", "cause", "run"].includes(column.name) || varying.includes(column) || MAIN_FIGURES.includes(column.name);
    const isTold = (column) => column.values.some((value) => value != null) && !this.listed.skipped.includes(column.name);
    const rank = (column) => (column.name === "outcome" ? 0 : kinds.includes(column.kind) ? 1 : column.kind === "run" ? 2 : 3);
    this.columns = columns.filter((column) => isTold(column) && (this.all || isMain(column)));
    this.columns.sort((a, b) => rank(a) - rank(b));
    if (this.listed === LISTED.points) this.columns.unshift(RUNS);
    // A phone has room for the settings in short and the leading figures; a tap shows the rest.
    const leading = [data.workloads[0]?.throughput, data.workloads[0]?.latency];
    if (isNarrow.matches && !this.all) this.columns = [SETTINGS, ...this.columns.filter((column) => leading.includes(column.name))];
    this.numeric = this.columns.map((column) => column.values.some((value) => typeof value === "number"));
    this.heads = this.columns.map((column, i) => el("th", { scope: "col", "aria-sort": "none", class: this.numeric[i] ? "number" : null },
      el("button", { type: "button", title: column.name, click: () => this.sort(column) }, column.short ?? column.title)));
    this.top = el("tr", { "aria-hidden": "true" }, el("td", { colspan: this.columns.length }));
    this.bottom = this.top.cloneNode(true);
    this.body = el("tbody");
    const widths = this.columns.map((column) => el("col", { style: `width:calc(${columnWidth(column)}ch + 22px)` }));
    this.table.replaceChildren(el("colgroup", {}, widths), el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.update();
  }

  sort(column) {
    const isSame = this.order?.column === column;
    const startsDown = higherIsBetter(column) === true;
    if (!isSame) this.order = { column, down: startsDown };
    else if (this.order.down === startsDown) this.order.down = !startsDown;
    else this.order = null;
    this.update();
  }

  update() {
    const { listed } = this;
    const items = listed.items.filter((item) => listed.passes(item) && this.matches(item));
    if (this.order) {
      const { column, down } = this.order;
      const values = new Map(items.map((item) => [item, this.value(item, column)]));
      // Missing values stay last in both directions.
      items.sort((first, second) => {
        const [a, b] = [values.get(first), values.get(second)];
        if (a == null || b == null) return (a == null) - (b == null) || first - second;
        return (down ? compareValues(b, a) : compareValues(a, b)) || first - second;
      });
    }
    this.items = items;
    this.heads.forEach((head, i) => {
      const isSorted = this.order?.column === this.columns[i];
      head.setAttribute("aria-sort", !isSorted ? "none" : this.order.down ? "descending" : "ascending");
    });
    this.count.textContent = `${showCount(items.length)} ${listed.what}`;
    this.table.setAttribute("aria-rowcount", items.length + 1);
    if (this.scrolled) this.port.scrollTop = this.scrolled = 0;
    this.redraw();
  }

  value(item, column) {
    if (column === SETTINGS) return settingsInShort(this.listed.row(item));
    return column === RUNS ? outcomesOf(points[item]) : this.listed.value(item, column);
  }

  matches(item) {
    if (!this.text) return true;
    const { what, items, rows } = this.listed;
    this.texts[what] ??= new Map(items.map((each) => [each, rows(each).map((row) =>
      [points[data.rows[row]].id, runValues("outcome")[row], runValues("cause")[row], inWords(runValues("cause")[row] ?? ""), settingsText(row), details[row]].join(" ")).join(" ").toLowerCase()]));
    return this.texts[what].get(item).includes(this.text);
  }

  draw(printed = 0) {
    const seen = Math.ceil(this.port.clientHeight / ROW_PX) + 2 * OVERSCAN;
    const first = printed ? 0 : Math.max(0, Math.floor(this.scrolled / ROW_PX) - OVERSCAN);
    const last = Math.min(this.items.length, first + (printed || seen));
    this.top.style.height = `${first * ROW_PX}px`;
    this.bottom.style.height = `${(printed ? 0 : this.items.length - last) * ROW_PX}px`;
    const shown = this.items.slice(first, last).map((item, i) => this.row(item, first + i));
    this.body.replaceChildren(...(first ? [this.top] : []), ...shown, ...(last < this.items.length && !printed ? [this.bottom] : []));
    if (!this.items.length) this.body.append(el("tr", {}, el("td", { colspan: this.columns.length, class: "empty" }, `No ${this.listed.what.slice(0, -1)} matches.`)));
    if (printed && last < this.items.length) this.body.append(el("tr", {}, el("td", { colspan: this.columns.length }, `and ${this.items.length - last} more in ${this.listed === LISTED.points ? "points.csv" : "summary.csv"}`)));
  }

  row(item, place) {
    const { listed } = this;
    const cells = this.columns.map((column, i) => {
      const value = this.value(item, column);
      const head = (...shown) => el("td", {}, el("button", { type: "button", class: "open", "aria-label": `Open ${listed.what.slice(0, -1)}: ${settingsText(listed.row(item))}, ${value}`, click: () => listed.open(item) }, shown));
      if (column === RUNS) {
        const { used, doubtful } = points[item];
        const doubt = doubtful && !value.includes("suspect") ? ", in doubt" : "";
        return head(el("span", { class: `tag ${used.length ? (doubtful ? "suspect" : "ok") : "failed"}` }, value + doubt));
      }
      if (column === SETTINGS) return head(value);
      if (column.name === "outcome") return head(outcomeTag(item));
      if (["cause", "codes"].includes(column.name)) return el("td", {}, inWords(value ?? ""));
      return el("td", { class: this.numeric[i] ? "number" : null, title: typeof value === "number" ? String(value) : null }, valueText(column, value));
    });
    return el("tr", { "aria-rowindex": place + 2, click: (event) => { if (!event.target.closest("button")) listed.open(item); } }, cells);
  }
}

/** The column of a point's runs, which no run has. */
const RUNS = { name: "runs", title: "Runs", kind: "run", values: [] };

/** The column of the settings in short, with their names in its head. */
const SETTINGS = { name: "settings", title: varying.map((column) => column.short ?? column.title).join(" / "), kind: "run", values: [] };

const isNarrow = matchMedia("(max-width: 559px)");

function settingsInShort(row) {
  return varying.map((column) => valueText(column, column.values[row])).join(" / ");
}

/** Room for the longest of some values; a head breaks into lines. */
function columnWidth(column) {
  if (column === RUNS) return 14;
  if (column === SETTINGS) return Math.min(28, Math.max(...points.slice(0, 500).map((point) => settingsInShort(point.rows[0]).length)));
  const step = Math.max(1, Math.floor(rowCount / 500));
  let most = 0;
  for (let row = 0; row < rowCount; row += step) most = Math.max(most, valueText(column, column.values[row]).length);
  const word = Math.max(...(column.short ?? column.title).split(" ").map((part) => part.length));
  return Math.min(28, Math.max(most, word + 1, 5));
}

new Table(document.getElementById("table"));
