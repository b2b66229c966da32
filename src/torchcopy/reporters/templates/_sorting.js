// The buttons in the heads of `table` sort `rows` by their columns; `show` draws them in their new order.
const makeSortable = (table, rows, show) => {
  const heads = [...table.tHead.rows[0].cells];
  const words = new Intl.Collator(undefined, { numeric: true });
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const first = head.dataset.first ?? "ascending";
      const other = { ascending: "descending", descending: "ascending", none: first };
      const order = other[head.getAttribute("aria-sort")];
      heads.forEach((each) => each.hasAttribute("aria-sort") && each.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      const cells = rows.map((row) => row.cells[column]);
      const numeric = cells.some((cell) => cell.dataset.value !== undefined);
      const key = (cell) => {
        if (!numeric) return cell.textContent.trim();
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const keyed = cells.map((cell, at) => [key(cell), rows[at]]);
      keyed.sort(([x], [y]) => {
        if (x === null || y === null) return (x === null) - (y === null);  // what has no number stays last
        const difference = numeric ? x - y : words.compare(x, y);
        return order === "descending" ? -difference : difference;
      });
      keyed.forEach(([, row], at) => { rows[at] = row; });
      show();
    });
  });
};
