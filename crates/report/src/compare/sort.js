// Sorts a table by the column whose head is pressed; pressed again, the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, place) => {
    const key = (row) => row.cells[place].dataset.by ?? row.cells[place].textContent;
    head.firstElementChild.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const compare = (a, b) => a - b || a.localeCompare(b, "en", { numeric: true });
      body.append(...[...body.rows].sort((a, b) => sign * compare(key(a), key(b))));
    });
  });
}
