"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const namespace = "http://www.w3.org/2000/svg";
  const panels = new Map();
  for (const figure of Object.values(figures)) {
    for (const panel of figure.panels) panels.set(panel.id, { ...panel, legend: figure.legend });
  }
  const hidden = (figure) => new Set(
    [...figure.querySelectorAll('[data-toggle][aria-pressed="false"]')].map((b) => b.dataset.toggle));

  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      for (const group of button.closest("figure").querySelectorAll("[data-key]")) {
        if (group.dataset.key === button.dataset.toggle) group.classList.toggle("off", off);
      }
    });
  }

  // The axes' box is [left, top, right, bottom] in the SVG's units; limits are data.
  const toX = (panel, x) => {
    const [low, high] = panel.x_limits;
    return panel.axes[0] + (x - low) / (high - low) * (panel.axes[2] - panel.axes[0]);
  };
  const number = (value) => Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2) : String(Number(value.toPrecision(4)));

  const line = (className, text, colour, value) => {
    const row = document.createElement("p");
    const label = document.createElement("span");
    if (colour) {
      const dot = document.createElement("i");
      dot.style.background = colour;
      label.append(dot);
    }
    label.append(text);
    row.append(label);
    if (value !== undefined) row.append(Object.assign(document.createElement("span"), { textContent: value }));
    return row;
  };

  const clear = (svg) => {
    svg.querySelector(".guide")?.remove();
    tip.hidden = true;
  };

  const show = (svg, panel, x, clientX, clientY) => {
    const off = hidden(svg.closest("figure"));
    const rows = panel.series.filter((s) => !off.has(s.key)).map((s) => {
      const at = s.x.indexOf(x);
      const entry = panel.legend.find((e) => e.key === s.key);
      return { key: s.key, value: at < 0 ? null : s.y[at], colour: entry.colour };
    }).filter((row) => row.value !== null).sort((a, b) => b.value - a.value);
    clear(svg);
    const guide = document.createElementNS(namespace, "line");
    const place = toX(panel, x);
    for (const [name, value] of Object.entries({ x1: place, x2: place, y1: panel.axes[1], y2: panel.axes[3] })) {
      guide.setAttribute(name, value);
    }
    guide.setAttribute("class", "guide");
    svg.append(guide);
    tip.replaceChildren(line("head", `${panel.title}, ${panel.x_label} ${x}`));
    for (const row of rows) tip.append(line("row", row.key, row.colour, number(row.value)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = clientX + 16 + box.width > innerWidth ? clientX - 16 - box.width : clientX + 16;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, Math.min(clientY + 16, innerHeight - box.height - 8))}px`;
  };

  for (const svg of document.querySelectorAll("[data-panel]")) {
    const panel = panels.get(svg.dataset.panel);
    const steps = [...new Set(panel.series.flatMap((s) => s.x))].sort((a, b) => a - b);
    let at = steps.length - 1;
    const pointed = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const far = (x) => Math.abs(toX(panel, x) - point.x);
      at = steps.reduce((best, x, i) => (far(x) < far(steps[best]) ? i : best), 0);
      show(svg, panel, steps[at], event.clientX, event.clientY);
    };
    const typed = () => {
      const box = svg.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      const x = box.left + (toX(panel, steps[at]) - svg.viewBox.baseVal.x) * scale;
      show(svg, panel, steps[at], x, box.top + box.height / 3);
    };
    svg.addEventListener("pointermove", pointed);
    svg.addEventListener("pointerdown", pointed);
    svg.addEventListener("pointerleave", () => clear(svg));
    svg.addEventListener("blur", () => clear(svg));
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

  const quoted = (value) => /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? "");
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => {
      const rows = [["scenario", "model", "panel", "quantity", "series", "step", "value", "low", "high"]];
      for (const svg of button.closest("figure").querySelectorAll("[data-panel]")) {
        const panel = panels.get(svg.dataset.panel);
        for (const s of panel.series) {
          s.x.forEach((x, i) => rows.push([
            panel.scenario, panel.model, panel.title, panel.y_label, s.key, x, s.y[i], s.low?.[i], s.high?.[i]]));
        }
      }
      const text = rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = button.dataset.download;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  // A link to what lies in a closed part opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
