"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // A heading of a table is a button that sorts; what no method made stays below.
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim().replaceAll(",", "");
    return text === "" ? null : Number.isNaN(parseFloat(text)) ? text : parseFloat(text);
  };
  for (const table of all("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    all("thead th", table).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const last = (row) => row.classList.contains("reference");
        body.append(...[...body.rows].sort((a, b) => {
          const [x, y] = [value(a, column), value(b, column)];
          if (last(a) !== last(b)) return last(a) - last(b);
          if (x === null || y === null) return (x === null) - (y === null);
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
          return up ? order : -order;
        }));
      });
    });
  }

  // A link to what lies in a closed part opens it; paper shows all parts.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
  addEventListener("beforeprint", () => { for (const part of all("details:not(#verdicts details, #settings details)")) part.open = true; });
})();
