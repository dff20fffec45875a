// Filters by parameter values: one choice for the charts and the run table.

const filter = {
  /** Column to the set of values that are not wanted. */
  hidden: new Map(),
  listeners: [],
  passes(row) {
    for (const [column, values] of this.hidden) if (values.has(column.values[row])) return false;
    return true;
  },
  changed() {
    for (const listener of this.listeners) listener();
  },
};

/** Parameters with more values than this are no list to tick. */
const MOST_CHOICES = 200;

function buildFilters(host) {
  const count = el("span", { class: "count", role: "status" });
  const reset = el("button", { type: "button", click: () => {
    filter.hidden.clear();
    for (const box of host.querySelectorAll("input")) box.checked = true;
    filter.changed();
  } }, "Show all");
  // The tabs of the workloads choose their settings.
  const filterable = [...varying.filter((column) => !ofWorkload.includes(column)), columnByName.get("outcome")].filter(Boolean);
  const menus = filterable.map(filterMenu).filter(Boolean);
  host.append(el("span", { class: "label" }, "Filter"), ...menus, reset, count);
  const tell = () => {
    let shown = 0;
    for (let row = 0; row < rowCount; row += 1) shown += filter.passes(row);
    count.textContent = `${showCount(shown)} of ${showCount(rowCount)} runs`;
    reset.hidden = filter.hidden.size === 0;
  };
  filter.listeners.push(tell);
  filter.changed();
  document.addEventListener("click", (event) => {
    for (const menu of host.querySelectorAll("details[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  host.addEventListener("keydown", (event) => {
    const menu = event.target.closest("details[open]");
    if (event.key !== "Escape" || !menu) return;
    menu.open = false;
    menu.firstChild.focus();
  });
}

function filterMenu(column) {
  const choices = [...new Set(column.values)].sort(compareValues);
  if (choices.length < 2 || choices.length > MOST_CHOICES) return null;
  const name = column.short ?? column.name;
  const summary = el("summary", {}, name);
  const key = `hide.${column.name}`;
  const kept = (recall(key) ?? "").split("\n");
  const known = choices.filter((value) => kept.includes(JSON.stringify(value)));
  if (known.length) filter.hidden.set(column, new Set(known));
  const boxes = choices.map((value) => {
    const box = el("input", { type: "checkbox", checked: !kept.includes(JSON.stringify(value)), change: () => {
      const hidden = filter.hidden.get(column) ?? new Set();
      if (box.checked) hidden.delete(value);
      else hidden.add(value);
      if (hidden.size) filter.hidden.set(column, hidden);
      else filter.hidden.delete(column);
      filter.changed();
    } });
    return el("label", {}, box, value == null ? "unset" : showValue(value));
  });
  filter.listeners.push(() => {
    const hidden = filter.hidden.get(column);
    const left = hidden ? choices.filter((value) => !hidden.has(value)) : [];
    summary.textContent = !hidden ? name : left.length === 1 ? `${name}: ${showValue(left[0])}` : `${name}: ${left.length} of ${choices.length}`;
    summary.classList.toggle("active", Boolean(hidden));
    remember(key, hidden ? [...hidden].map((value) => JSON.stringify(value)).join("\n") : null);
  });
  return el("details", { class: "menu" }, summary, el("div", { class: "choices", role: "group", "aria-label": column.name }, boxes));
}
