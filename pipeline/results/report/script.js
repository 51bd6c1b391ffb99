"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const namespace = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");
  const panels = new Map();
  for (const { colours, labels, panels: own } of JSON.parse(document.getElementById("data").textContent)) {
    for (const panel of own) panels.set(panel.id, { ...panel, colours, labels });
  }

  // One method is picked out everywhere: what belongs to another is dimmed, the baseline is not.
  const pick = document.getElementById("pick");
  const methods = new Set([...pick.options].map((option) => option.value));
  const methodOf = (element) => {
    const { method, key, toggle, panel } = element.dataset;
    return [method, key, toggle, panels.get(panel)?.method].find((name) => methods.has(name));
  };
  const show = () => {
    const kept = ["", undefined, pick.value, document.body.dataset.baseline];
    for (const element of all("[data-method], [data-key], [data-toggle], [data-panel]")) {
      element.classList.toggle("dim", pick.value !== "" && !kept.includes(methodOf(element)));
    }
    for (const link of all('a[href*=".html"]')) {
      const [path, anchor] = link.getAttribute("href").split("#");
      const asked = pick.value && `?method=${encodeURIComponent(pick.value)}`;
      link.href = path.split("?")[0] + asked + (anchor ? `#${anchor}` : "");
    }
  };
  const asked = new URLSearchParams(location.search).get("method");
  if (methods.has(asked)) pick.value = asked;
  pick.addEventListener("change", show);
  show();

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

  for (const button of all("[data-toggle]")) {
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      for (const group of all("[data-key]", button.closest("figure"))) {
        if (group.dataset.key === button.dataset.toggle) group.classList.toggle("off", off);
      }
    });
  }

  // The axes' box is [left, top, right, bottom] in the SVG's units; limits are data.
  const toX = (panel, x) => {
    const [low, high] = panel.x_limits;
    return panel.axes[0] + (x - low) / (high - low) * (panel.axes[2] - panel.axes[0]);
  };
  const clear = (svg) => {
    svg.querySelector(".guide")?.remove();
    tip.hidden = true;
  };
  const line = (text, amount, colour) => {
    const [row, label, dot] = ["p", "span", "i"].map((tag) => document.createElement(tag));
    if (colour) label.append(dot);
    dot.style.background = colour;
    label.append(text);
    row.append(label, amount);
    return row;
  };
  const read = (svg, panel, x, clientX, clientY) => {
    const off = new Set(all('[data-toggle][aria-pressed="false"]', svg.closest("figure")).map((b) => b.dataset.toggle));
    const rows = panel.series.filter((series) => !off.has(series.key))
      .map(({ key, x: steps, y }) => ({ key, amount: y[steps.indexOf(x)] ?? null }))
      .filter((row) => row.amount !== null).sort((a, b) => b.amount - a.amount);
    clear(svg);
    const guide = document.createElementNS(namespace, "line");
    const place = toX(panel, x);
    for (const [name, at] of Object.entries({ x1: place, x2: place, y1: panel.axes[1], y2: panel.axes[3], class: "guide" })) {
      guide.setAttribute(name, at);
    }
    svg.append(guide);
    tip.replaceChildren(line(`${panel.title}, ${panel.x_label} ${x}`, ""),
      ...rows.map(({ key, amount }) => line(panel.labels[key], String(amount), panel.colours[key])));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = clientX + 16 + box.width > innerWidth ? clientX - 16 - box.width : clientX + 16;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, Math.min(clientY + 16, innerHeight - box.height - 8))}px`;
  };
  for (const svg of all("[data-panel]")) {
    const panel = panels.get(svg.dataset.panel);
    const steps = [...new Set(panel.series.flatMap((series) => series.x))].sort((a, b) => a - b);
    let at = steps.length - 1;
    const pointed = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const far = (x) => Math.abs(toX(panel, x) - point.x);
      at = steps.reduce((best, x, i) => (far(x) < far(steps[best]) ? i : best), 0);
      read(svg, panel, steps[at], event.clientX, event.clientY);
    };
    const typed = () => {
      const box = svg.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      read(svg, panel, steps[at], box.left + (toX(panel, steps[at]) - svg.viewBox.baseVal.x) * scale, box.top + box.height / 3);
    };
    for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, pointed);
    for (const name of ["pointerleave", "blur"]) svg.addEventListener(name, () => clear(svg));
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) typed(); });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") clear(svg);
      if (move === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(steps.length - 1, at + move));
      typed();
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
