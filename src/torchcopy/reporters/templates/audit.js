"use strict";
{% include "_sorting.js" %}

(() => {  // light or dark: what the system prefers, until the button is pressed
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = (theme) => {
    try {  // a browser may refuse storage to a file
      if (theme) localStorage.setItem("torchcopy-theme", theme);
      return localStorage.getItem("torchcopy-theme");
    } catch {
      return null;
    }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const before = kept();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    kept(root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  button.hidden = false;
  name();
})();

(() => {  // a link into a folded file unfolds it
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    const file = target.closest("details");
    if (file) file.open = true;
    target.scrollIntoView();
    if (target.tabIndex === -1 && target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
  };
  addEventListener("hashchange", reveal);
  reveal();
})();

(() => {  // the table of copies: sorted, searched, and no more rows at once than a browser likes
  const table = document.getElementById("sites");
  if (!table) return;
  document.getElementById("without-script")?.remove();
  const body = table.tBodies[0];
  const rest = document.getElementById("more-rows").content;
  const rows = [...body.rows, ...rest.querySelectorAll("tr")];
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const [more, all] = [document.getElementById("more"), document.getElementById("all")];
  const atOnce = 200;
  let limit = atOnce;
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, `${row.textContent} ${row.dataset.status}`.toLowerCase());
    return texts.get(row);
  };
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = words.length ? rows.filter((row) => words.every((word) => text(row).includes(word))) : rows;
    const shown = document.createDocumentFragment();
    matching.slice(0, limit).forEach((row) => shown.append(row));
    body.replaceChildren(shown);
    const count = (number) => number.toLocaleString("en");
    const lines = rows.length === 1 ? "line" : "lines";
    const some = matching.length > limit ? `, the first ${count(limit)} are shown` : "";
    found.textContent = words.length
      ? `${count(matching.length)} of ${count(rows.length)} ${lines}${some}`
      : `${count(rows.length)} ${lines}${some}`;
    more.hidden = all.hidden = matching.length <= limit;
    more.textContent = `Show ${count(Math.min(atOnce, matching.length - limit))} more`;
    all.textContent = `Show all ${count(matching.length)}`;
  };
  makeSortable(table, rows, show);
  search.addEventListener("input", () => { limit = atOnce; show(); });
  more.addEventListener("click", () => { limit += atOnce; show(); });
  all.addEventListener("click", () => { limit = Infinity; show(); });
  show();

  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest?.("input, textarea, select")) return;
    event.preventDefault();
    search.scrollIntoView({ block: "center" });
    search.focus();
  });
})();
