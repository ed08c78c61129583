// Draws the page's four charts with uPlot; each says in words and in a table what it shows.
"use strict";

const Charts = (() => {
  const HEIGHT = 150;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function axis(label, values, size) {
    return {
      stroke: () => colour("dim"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      grid: { stroke: () => colour("grid"), width: 1 }, ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
      label, labelSize: 16, gap: 3, size: size || 24, ...(values ? { values: (_, all) => all.map(values) } : {}),
    };
  }

  const known = write => value => value === null || value === undefined ? "" : write(value);
  const number = known(value => String(Number(value.toPrecision(3))));
  const ms = known(value => number(1000 * value) + " ms");
  const times = known(Words.times);
  const share = known(Words.share);
  const clock = unix => new Date(1000 * unix).toTimeString().slice(0, 8);

  // A chart in a section: the plot, its key, what is under the pointer, and the same as a table.
  function frame(id, key, options, told, head) {
    const section = document.getElementById(id);
    const plot = section.appendChild(document.createElement("div"));
    plot.className = "plot";
    plot.setAttribute("role", "img");
    const legend = section.appendChild(document.createElement("p"));
    legend.className = "key";
    for (const [look, text] of key) {  // colour and shape: not everybody sees the colour
      const part = legend.appendChild(document.createElement("span"));
      part.className = look;
      part.textContent = text;
    }
    const readout = section.appendChild(document.createElement("p"));
    readout.className = "readout";
    const nothing = document.createElement("p");
    nothing.className = "nothing";
    const more = section.appendChild(document.createElement("details"));
    more.appendChild(document.createElement("summary")).textContent = "As a table";
    const rows = more.appendChild(document.createElement("div"));
    rows.className = "rows";
    rows.tabIndex = 0;
    rows.setAttribute("role", "region");
    rows.setAttribute("aria-label", section.querySelector("h2").textContent + ", as a table");
    let drawn = null, data = null, table = [];

    function build() {
      if (drawn) drawn.destroy();
      drawn = null;
      readout.textContent = "";
      if (!data || !data[0].length) { plot.replaceChildren(nothing); return; }
      nothing.remove();
      drawn = new uPlot({
        width: Math.max(plot.clientWidth, 120), height: HEIGHT, legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        hooks: { setCursor: [u => { readout.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? "" : told(data, u.cursor.idx); }] },
        ...options(),
      }, data, plot);
    }

    function fill() {
      if (!more.open) return;
      const made = document.createElement("table");
      const top = made.createTHead().insertRow();
      for (const name of head) {
        const cell = top.appendChild(document.createElement("th"));
        cell.scope = "col";
        cell.textContent = name;
      }
      const body = made.createTBody();
      for (const row of table) {
        const line = body.insertRow();
        for (const text of row) line.insertCell().textContent = text;
      }
      rows.replaceChildren(made);
    }

    more.addEventListener("toggle", fill);
    new ResizeObserver(() => { if (drawn) drawn.setSize({ width: Math.max(plot.clientWidth, 120), height: HEIGHT }); }).observe(plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
    return {
      show(next, words, lines, anew) {
        data = next;
        table = lines;
        plot.setAttribute("aria-label", words);
        nothing.textContent = data[0].length ? "" : words;
        if (drawn && !anew && data[0].length) drawn.setData(data);
        else build();
        fill();
      },
    };
  }

  const line = (shade, width = 2, dash) => ({ stroke: () => colour(shade), width, dash, points: { show: false }, spanGaps: false });
  const timeScale = { x: { time: true } };

  const median = all => { const sorted = [...all].sort((a, b) => a - b); return sorted[sorted.length >> 1]; };

  // Loads a quarter of a doubling apart are one bin.
  function bins(points) {
    const found = new Map();
    for (const one of points) {
      const bin = Math.round(4 * Math.log2(one.load));
      if (!found.has(bin)) found.set(bin, []);
      found.get(bin).push(one.speedup);
    }
    return [...found].sort((a, b) => a[0] - b[0]).map(([bin, all]) => ({ load: 2 ** (bin / 4), speedup: median(all), count: all.length }));
  }

  function speedup() {
    const made = frame("speedup", [["one dot", "a point in time"], ["two", "median"], ["rest dashed", "without"]], () => ({
      scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_, low, high) => [Math.min(low, 0.9), Math.max(high, 1.1) * 1.03] } },
      axes: [axis("requests in decode", number), axis("× as fast as without", number, 46)],
      series: [{}, { paths: () => null, points: { show: true, size: 4, stroke: () => colour("one"), fill: () => colour("one") } },
        { ...line("two"), spanGaps: true }, { ...line("dim", 1, [4, 4]), spanGaps: true }],
    }), (data, at) => number(data[0][at]) + " in decode: " + times(data[1][at] ?? data[2][at]), ["requests in decode", "speedup (median)", "points"]);
    return points => {
      const seen = points.filter(one => one.speedup_ratio !== null && one.acceptance_length !== null && one.decode_concurrency > 0.05)
        .map(one => ({ load: one.decode_concurrency, speedup: one.speedup_ratio }));
      const binned = bins(seen);
      const all = [...seen.map(one => [one.load, one.speedup, null]), ...binned.map(one => [one.load, null, one.speedup])].sort((a, b) => a[0] - b[0]);
      const data = [all.map(one => one[0]), all.map(one => one[1]), all.map(one => one[2]), all.map((_, at) => at === 0 || at === all.length - 1 ? 1 : null)];
      const words = seen.length ? "Speedup over load: " + binned.map(one => times(one.speedup) + " at " + number(one.load)).join(", ") + " requests in decode." : "No speedup is known in this time: it needs a baseline and traffic.";
      made.show(data, words, binned.map(one => [number(one.load), times(one.speedup), String(one.count)]));
    };
  }

  function overTime(id, key, series, label, write, columns, words, scales) {
    const made = frame(id, key, () => ({
      scales: { ...timeScale, ...scales }, axes: [{ ...axis(undefined), values: (_, all) => all.map(clock), space: 80 }, axis(label, value => write(value), 58)], ...series(),
    }), (data, at) => clock(data[0][at]) + ": " + columns.map(([name, text], i) => data[i + 1][at] === null ? null : text + " " + write(data[i + 1][at])).filter(Boolean).join(", "),
    ["time", ...columns.map(([, text]) => text)]);
    return points => {
      const data = [points.map(one => one.unix), ...columns.map(([name]) => points.map(one => one[name]))];
      const last = points.length ? points[points.length - 1] : null;
      const rows = points.slice(-60).reverse().map(one => [clock(one.unix), ...columns.map(([name]) => write(one[name]))]);
      made.show(last ? data : data.map(() => []), last ? words(last) : "Nothing is known in this time.", rows);
    };
  }

  function tpot() {
    return overTime("tpot", [["one", "measured"], ["two dashed", "without speculation"]], () => ({
      series: [{}, line("one"), line("two", 2, [5, 4]), line("band", 1), line("band", 1)],
      bands: [{ series: [4, 3], fill: () => colour("band") }],
    }), "per output token", ms, [["tpot_seconds", "now"], ["baseline_tpot_seconds", "baseline"], ["baseline_tpot_low_seconds", "its low end"], ["baseline_tpot_high_seconds", "its high end"]],
    last => "Time per output token: " + (ms(last.tpot_seconds) || "unknown") + "; without speculation at this load " + (ms(last.baseline_tpot_seconds) || "unknown") + ".", { y: { range: (_, low, high) => [0, (high || 1e-3) * 1.1] } });
  }

  function steps() {
    return overTime("steps", [["one", "acceptance length"], ["two dashed", "break-even"], ["rest thin", "per step"]], () => ({
      series: [{}, line("one"), line("two", 2, [5, 4]), line("dim", 1)],
    }), "tokens", number, [["acceptance_length", "acceptance length"], ["breakeven_acceptance_length", "break-even"], ["tokens_per_step", "tokens per step"]],
    last => "Acceptance length " + (number(last.acceptance_length) || "unknown") + ", break-even at " + (number(last.breakeven_acceptance_length) || "unknown") + ", tokens per step " + (number(last.tokens_per_step) || "unknown") + ".", { y: { range: (_, low, high) => [Math.min(1, low ?? 1), Math.max(high ?? 2, 2) * 1.05] } });
  }

  function positions() {
    let known = 0;
    const made = frame("positions", [["one bar", "share of drafts accepted up to it"]], () => ({
      scales: { x: { time: false, range: [0.4, known + 0.6] }, y: { range: [0, 1] } },
      axes: [{ ...axis("draft position"), incrs: [1], values: (_, all) => all.map(value => Number.isInteger(value) && value >= 1 && value <= known ? value : "") }, axis(undefined, share, 58)],
      series: [{}, { ...line("one", 1), fill: () => colour("one"), paths: uPlot.paths.bars({ size: [0.6, 64] }) }],
    }), (data, at) => "position " + data[0][at] + ": " + share(data[1][at]), ["position", "accepted"]);
    return (all, why) => {
      const anew = known !== all.length;
      known = all.length;
      const words = known ? "Accepted by position: " + all.map((value, at) => at + 1 + " " + share(value)).join(", ") + "." : "Acceptance by position is not known" + (why ? ": " + Words.words(why) : "") + ".";
      made.show([all.map((_, at) => at + 1), all], words, all.map((value, at) => [String(at + 1), share(value)]), anew);
    };
  }

  return { speedup, tpot, steps, positions };
})();
