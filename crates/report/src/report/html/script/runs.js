// The run table: sorted and searched here, with only the rows in view as elements, so that 10 000 stay usable.

const ROW_PX = 30;
const OVERSCAN = 8;
const MOST_PRINTED = 60;
const MAIN_FIGURES = ["output_throughput", "request_throughput", "tokens_per_gpu", "tokens_per_user", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "p99_e2el_ms"];

class RunTable {
  constructor(host) {
    this.order = null; // { column, down }
    this.text = "";
    this.all = false;
    this.texts = null;
    const search = el("input", { type: "search", placeholder: "Search runs", "aria-label": "Search runs", input: () => {
      this.text = search.value.trim().toLowerCase();
      this.update();
    } });
    const wide = toggle("all columns", () => {
      this.all = !this.all;
      this.build();
    });
    this.count = el("span", { class: "count", role: "status" });
    this.table = el("table", { class: "runs" });
    this.port = el("div", { class: "port", tabindex: 0, role: "region", "aria-label": "Runs", scroll: () => this.draw() }, this.table);
    host.append(el("div", { class: "controls" }, search, wide, this.count), this.port);
    filter.listeners.push(() => this.update());
    this.build();
    addEventListener("beforeprint", () => this.draw(MOST_PRINTED));
    addEventListener("afterprint", () => this.draw());
  }

  /** Columns, widths and heads; then the rows. */
  build() {
    const kinds = ["serve", "bench"];
    const isMain = (column) => ["outcome", "validity", "codes", "cause", "run"].includes(column.name) || varying.includes(column) || MAIN_FIGURES.includes(column.name);
    const isTold = (column) => column.values.some((value) => value != null);
    const rank = (column) => (column.name === "outcome" ? 0 : kinds.includes(column.kind) ? 1 : column.kind === "run" ? 2 : 3);
    this.columns = columns.filter((column) => isTold(column) && (this.all || isMain(column)));
    this.columns.sort((a, b) => rank(a) - rank(b));
    this.heads = this.columns.map((column) => el("th", { scope: "col", "aria-sort": "none", class: column.values.some((value) => typeof value === "number") ? "number" : null },
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
    const rows = [];
    for (let row = 0; row < rowCount; row += 1) if (filter.passes(row) && this.matches(row)) rows.push(row);
    if (this.order) {
      const { column: { values }, down } = this.order;
      // Missing values stay last in both directions.
      rows.sort((a, b) => {
        if (values[a] == null || values[b] == null) return (values[a] == null) - (values[b] == null) || a - b;
        return (down ? compareValues(values[b], values[a]) : compareValues(values[a], values[b])) || a - b;
      });
    }
    this.rows = rows;
    this.heads.forEach((head, i) => {
      const isSorted = this.order?.column === this.columns[i];
      head.setAttribute("aria-sort", !isSorted ? "none" : this.order.down ? "descending" : "ascending");
    });
    this.count.textContent = `${showCount(rows.length)} runs`;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.port.scrollTop = 0;
    this.draw();
  }

  matches(row) {
    if (!this.text) return true;
    this.texts ??= Array.from({ length: rowCount }, (_, each) =>
      [points[data.rows[each]].id, runValues("outcome")[each], runValues("cause")[each], settingsText(each), details[each]].join(" ").toLowerCase());
    return this.texts[row].includes(this.text);
  }

  draw(printed = 0) {
    const seen = Math.ceil(this.port.clientHeight / ROW_PX) + 2 * OVERSCAN;
    const first = printed ? 0 : Math.max(0, Math.floor(this.port.scrollTop / ROW_PX) - OVERSCAN);
    const last = Math.min(this.rows.length, first + (printed || seen));
    this.top.style.height = `${first * ROW_PX}px`;
    this.bottom.style.height = `${(printed ? 0 : this.rows.length - last) * ROW_PX}px`;
    const shown = this.rows.slice(first, last).map((row, i) => this.row(row, first + i));
    this.body.replaceChildren(...(first ? [this.top] : []), ...shown, ...(last < this.rows.length && !printed ? [this.bottom] : []));
    if (!this.rows.length) this.body.append(el("tr", {}, el("td", { colspan: this.columns.length, class: "empty" }, "No run matches.")));
    if (printed && last < this.rows.length) this.body.append(el("tr", {}, el("td", { colspan: this.columns.length }, `and ${this.rows.length - last} more in summary.csv`)));
  }

  row(row, place) {
    const cells = this.columns.map((column) => {
      const value = column.values[row];
      if (column.name === "outcome") return el("td", {}, el("button", { type: "button", class: "open", "aria-label": `Open run: ${settingsText(row)}`, click: () => openRun(row) }, outcomeTag(row)));
      if (column.name === "cause") return el("td", {}, value ? value.replaceAll("_", " ") : "");
      return el("td", { class: typeof value === "number" ? "number" : null, title: typeof value === "number" ? String(value) : null }, cellText(column, row));
    });
    return el("tr", { "aria-rowindex": place + 2, click: (event) => { if (!event.target.closest("button")) openRun(row); } }, cells);
  }
}

/** Room for the longest of some values; a head breaks into lines. */
function columnWidth(column) {
  const step = Math.max(1, Math.floor(rowCount / 500));
  let most = 0;
  for (let row = 0; row < rowCount; row += step) most = Math.max(most, cellText(column, row).length);
  const word = Math.max(...(column.short ?? column.title).split(" ").map((part) => part.length));
  return Math.min(28, Math.max(most, word + 1, 5));
}

new RunTable(document.getElementById("table"));
