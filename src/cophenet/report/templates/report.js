"use strict";
// Draws the charts of the page from the data in it, when they come into sight.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
const DASHES = ["solid", "dash", "dot", "dashdot"];
const GUESSES = { chance: "by chance", majority: "always the largest" };
const MOST_LINES = 12, MOST_GROUPS = 40, MOST_TICKS = 40;
const PRINTED = { "--ink": "#000000", "--muted": "#444a52", "--line": "#c9ced4", "--card": "#ffffff" };
let printing = false;

const color = (name) =>
  printing ? PRINTED[name] : getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => innerWidth < 700;
// Names are text: plotly would take marks in them for its own.
const text = (name) => String(name).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const paint = (index) => DATA.palette[index % DATA.palette.length];
const symbol = (index) => SYMBOLS[(index + Math.floor(index / SYMBOLS.length)) % SYMBOLS.length];
const dash = (index) => DASHES[Math.floor(index / DATA.palette.length) % DASHES.length];
const shown = (value, percent) => (percent ? `${(100 * value).toFixed(2)} %` : value.toFixed(3));

const bytes = (packed) => Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
function unpack({ low, step, data }) {
  const codes = new Uint16Array(bytes(data).buffer);
  return Array.from(codes, (code) => (code === 65535 ? null : low + step * code));
}

function axis(extra) {
  return {
    gridcolor: color("--line"), linecolor: color("--line"), zerolinecolor: color("--line"),
    automargin: true, fixedrange: narrow(), ...extra,
  };
}
function layout(extra) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: color("--ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
    hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") }, align: "left", namelength: -1 },
    margin: { l: 8, r: 8, t: 8, b: 8 }, dragmode: narrow() ? false : "zoom", showlegend: false, ...extra,
  };
}
function legend(count) {
  if (count > MOST_LINES) return narrow() ? {} : { showlegend: true, legend: { font: { size: 11 } } };
  return { showlegend: true, legend: { orientation: "h", y: narrow() ? -0.36 : -0.18, yanchor: "top", font: { size: 12 } } };
}

// A select above a chart; gives what is chosen, and draws again when that changes.
function choice(chart, label, options, first) {
  if (!chart.choices[label]) {
    const box = document.createElement("label"), select = document.createElement("select");
    box.append(label, select);
    chart.controls.append(box);
    select.addEventListener("change", chart.draw);
    chart.choices[label] = { box, select };
  }
  const { box, select } = chart.choices[label];
  const before = select.options.length ? select.value : String(first ?? options[0]?.[0]);
  select.replaceChildren(...options.map(([value, name]) => new Option(name, value)));
  select.value = options.some(([value]) => String(value) === before) ? before : String(options[0]?.[0]);
  box.hidden = options.length < 2;
  return select.value;
}

const KINDS = {
  levels(chart, c) {
    const families = [...new Set(Object.values(c.metrics).filter((m) => m.level).map((m) => m.family))];
    const preferred = c.metrics[Object.keys(c.metrics).find((key) => key.endsWith(`/map/${c.coarse}`))]?.family;
    const family = choice(chart, "Metric", families.map((name) => [name, name]), preferred);
    const keys = Object.fromEntries(
      Object.entries(c.metrics).filter(([, m]) => m.family === family).map(([key, m]) => [m.level, key]));
    const levels = c.levels.filter((level) => level.name in keys);
    // Differences only where their noise is known.
    const known = Object.values(c.against).some((gaps) => Object.values(keys).some((key) => key in gaps));
    const shows = [["value", "values"], ["gap", "differences to Flat"]].slice(0, known ? 2 : 1);
    const gaps = choice(chart, "Show", shows, "gap") === "gap";
    const percent = Object.values(c.metrics).find((m) => m.family === family).percent;
    const x = levels.map((_, place) => place), format = percent ? (gaps ? ":+.2%" : ":.2%") : gaps ? ":+.3f" : ":.3f";
    const traces = Object.entries(c.values).map(([place, values], order) => {
      const own = !gaps ? values : Number(place) === c.reference ? null : c.against[place];
      const run = c.runs[place], points = levels.map((level) => (own ? own[keys[level.name]] ?? [null, null, null] : [0, null, null]));
      return {
        type: "scatter", mode: "lines+markers", name: text(run.short), x, y: points.map((p) => p[0]),
        visible: order < MOST_LINES ? true : "legendonly",
        line: { color: paint(run.color), dash: dash(run.color), width: 2 },
        marker: { symbol: symbol(run.color), size: 7 },
        error_y: {
          type: "data", symmetric: false, thickness: 1, width: 3, color: paint(run.color),
          array: points.map((p) => (p[2] === null ? 0 : p[2] - p[0])),
          arrayminus: points.map((p) => (p[1] === null ? 0 : p[0] - p[1])),
        },
        customdata: points.map((p) => (p[1] === null || p[0] === null ? "" : ` [${shown(p[1], percent)}, ${shown(p[2], percent)}]`)),
        hovertemplate: `<b>${text(run.name)}</b><br>%{y${format}}%{customdata}<extra></extra>`,
      };
    });
    const guesses = gaps ? [] : (c.metrics[keys[levels[0]?.name]]?.guesses ?? []);
    for (const kind of guesses) {
      const name = GUESSES[kind];
      traces.push({
        type: "scatter", mode: "lines", name, x, y: levels.map((level) => level[kind]), hovertemplate: `${name}: %{y:.2%}<extra></extra>`,
        line: { color: color("--muted"), dash: kind === "chance" ? "dot" : "dashdot", width: 1 },
      });
    }
    const names = levels.map((level) => `${text(level.name)}<br>${level.groups} ${level.groups === 1 ? "group" : "groups"}`);
    return [traces, layout({
      height: narrow() ? 440 : 460, ...legend(c.runs.length),
      xaxis: axis({ tickvals: x, ticktext: names, range: [-0.3, x.length - 0.7], tickangle: x.length > 4 && narrow() ? -60 : "auto", tickfont: { size: 11 } }),
      yaxis: axis(gaps ? { tickformat: percent ? "+.1%" : "+.2f" } : { tickformat: percent ? ".0%" : "", rangemode: "tozero" }),
    })];
  },

  metric(chart, c) {
    const keys = Object.keys(c.metrics);
    const preferred = keys.find((key) => key.endsWith(`/map/${c.coarse}`)) ?? keys[0];
    const key = choice(chart, "Metric", keys.map((one) => [one, c.metrics[one].title]), preferred);
    const info = c.metrics[key], percent = info.percent;
    const places = Object.keys(c.values).filter((place) => c.values[place][key]);
    const points = places.map((place) => c.values[place][key]);
    const traces = [{
      type: "scatter", mode: "markers", x: points.map((p) => p[0]), y: places.map((_, row) => row),
      marker: { color: places.map((p) => paint(c.runs[p].color)), symbol: places.map((p) => symbol(c.runs[p].color)), size: 10 },
      text: places.map((p) => text(c.runs[p].name)),
      hovertemplate: `<b>%{text}</b><br>%{x${percent ? ":.2%" : ":.3f"}}<extra></extra>`,
      error_x: {
        type: "data", symmetric: false, thickness: 1.5, width: 4, color: color("--muted"),
        array: points.map((p) => (p[2] === null ? 0 : p[2] - p[0])), arrayminus: points.map((p) => (p[1] === null ? 0 : p[0] - p[1])),
      },
    }];
    const shapes = [], annotations = [];
    const mark = (value, name) => {
      shapes.push({ type: "line", x0: value, x1: value, y0: 0, y1: 1, yref: "paper", line: { color: color("--muted"), dash: "dot", width: 1 } });
      annotations.push({ x: value, y: 1, yref: "paper", yanchor: "bottom", text: name, showarrow: false, font: { size: 10, color: color("--muted") } });
    };
    const flat = c.reference === null ? null : c.values[c.reference][key];
    if (flat) mark(flat[0], "Flat");
    const level = c.levels.find((one) => one.name === info.level);
    if (level && info.guesses.includes("chance")) mark(level.chance, "chance");
    return [traces, layout({
      height: 70 + 26 * places.length, shapes, annotations, margin: { l: 8, r: 16, t: 22, b: 8 },
      xaxis: axis({ tickformat: percent ? ".1%" : "" }),
      yaxis: axis({
        tickvals: places.map((_, row) => row), ticktext: places.map((p) => text(c.runs[p].short)),
        range: [places.length - 0.5, -0.5], tickfont: { size: 11 },
      }),
    })];
  },

  curves(chart, c) {
    const kinds = [...new Set(c.curves.map((curve) => curve.quantity))];
    const kind = choice(chart, "Quantity", kinds.map((name) => [name, name]));
    const lines = c.curves.filter((curve) => curve.quantity === kind);
    const several = new Set(lines.map((line) => line.name)).size > 1;
    const traces = lines.map((line, order) => {
      const run = c.runs[line.run], name = several ? `${run.short} · ${line.name}` : run.short;
      return {
        type: "scatter", mode: "lines+markers", name: text(name), x: line.values.map((_, epoch) => epoch + 1), y: line.values,
        visible: order < MOST_LINES ? true : "legendonly", marker: { symbol: symbol(run.color), size: 4 },
        line: { color: paint(run.color), dash: several ? DASHES[order % 4] : dash(run.color), width: 2 },
        hovertemplate: `<b>${text(several ? `${run.name} · ${line.name}` : run.name)}</b><br>epoch %{x}: %{y${line.percent ? ":.2%" : ":.4g"}}<extra></extra>`,
      };
    });
    const phases = [...new Set(lines.flatMap((line) => line.phases))];
    return [traces, layout({
      height: 420, ...legend(traces.length),
      shapes: phases.map((start) => ({ type: "line", x0: start - 0.5, x1: start - 0.5, y0: 0, y1: 1, yref: "paper", line: { color: color("--muted"), dash: "dot", width: 1 } })),
      xaxis: axis({ title: { text: "epoch" } }), yaxis: axis({ tickformat: lines[0].percent ? ".0%" : "" }),
    })];
  },

  tree(chart, c) {
    const runs = Object.keys(c.nodes), flat = c.reference;
    const first = runs.find((place) => Number(place) !== flat) ?? runs[0];
    const run = choice(chart, "Run", runs.map((place) => [place, c.runs[place].short]), first);
    const kinds = [["accuracy", "accuracy"]];
    if (flat !== null && Number(run) !== flat) kinds.push(["change", "change against Flat"]);
    const change = choice(chart, "Colour", kinds, "change") === "change";
    const rates = c.nodes[run], { names, shorts, parents, counts } = c.tree;
    const values = rates.map((rate, node) => (!change ? rate : rate === null || c.nodes[flat][node] === null ? null : rate - c.nodes[flat][node]));
    const largest = Math.max(0.02, ...values.slice(1).map((value) => Math.abs(value ?? 0)));
    const said = values.map((value, node) => {
      const rate = rates[node] === null ? "no samples" : `accuracy ${(100 * rates[node]).toFixed(1)} %`;
      const gap = change && value !== null ? `<br>against Flat ${value > 0 ? "+" : ""}${(100 * value).toFixed(1)} points` : "";
      return node ? `${rate}${gap}` : "all samples";
    });
    return [[{
      type: "icicle", ids: names.map((_, node) => String(node)), labels: shorts.map(text), parents: parents.map((p) => (p < 0 ? "" : String(p))),
      values: counts, branchvalues: "total", sort: false, maxdepth: names.length > 400 ? 4 : -1,
      customdata: names.map((name, node) => `<b>${text(name)}</b><br>${counts[node]} ${counts[node] === 1 ? "class" : "classes"}<br>${said[node]}`),
      hovertemplate: "%{customdata}<extra></extra>", tiling: { orientation: narrow() ? "v" : "h", pad: 1 },
      pathbar: { thickness: 24 }, textfont: { size: 11 },
      marker: {
        colors: values.map((value, node) => (node ? value : null) ?? (change ? 0 : null)),
        colorscale: change ? [[0, "#d55e00"], [0.5, "#f2f2f2"], [1, "#0072b2"]] : "Cividis",
        cmin: change ? -largest : Math.min(...values.filter((value) => value !== null)), cmax: change ? largest : 1,
        showscale: true, colorbar: { tickformat: change ? (largest < 0.05 ? "+.1%" : "+.0%") : ".0%", thickness: 10, outlinewidth: 0 }, line: { width: 0.5, color: color("--card") },
      },
    }], layout({ height: Math.min(900, Math.max(420, 4.2 * counts[0])), uniformtext: { minsize: 9, mode: "hide" } })];
  },

  matrix(chart, c) {
    const options = c.matrices.map((m, place) => [place, m.run === null ? m.name : `${c.runs[m.run].short} · ${m.name}`]);
    const chosen = c.matrices[choice(chart, "Distances", options, Math.max(0, c.matrices.findIndex((m) => m.run !== null && m.run !== c.reference)))];
    const { order, classes, leaves, shorts, groups } = c.tree, n = order.length, distances = unpack(chosen);
    const names = order.map((label) => text(classes[label]));
    const at = (i, j) => (i === j ? 0 : distances[Math.min(i, j) * n - (Math.min(i, j) * (Math.min(i, j) + 1)) / 2 + Math.max(i, j) - Math.min(i, j) - 1]);
    const z = order.map((i) => order.map((j) => at(i, j)));
    const traces = [{
      type: "heatmap", x: names, y: names, z, zmin: 0, colorscale: "Cividis", hoverongaps: false, showscale: !narrow(),
      colorbar: { thickness: 10, outlinewidth: 0 }, hovertemplate: "%{y}<br>%{x}<br>distance %{z:.4g}<extra></extra>",
    }];
    // Lines between the groups of a level, the thinner the deeper, as long as they do not hide the colours.
    const shapes = [];
    Object.values(groups).slice(0, -1).forEach((nodes, depth) => {
      const cuts = order.map((_, place) => place).filter((place) => place && nodes[order[place]] !== nodes[order[place - 1]]);
      if (depth && cuts.length > Math.min(n / 3, 90)) return;
      const line = { color: "#ffffff", width: Math.max(0.3, 1.6 / (depth + 1)) }, ends = [-0.5, n - 0.5];
      for (const cut of cuts) {
        shapes.push({ type: "line", x0: cut - 0.5, x1: cut - 0.5, y0: ends[0], y1: ends[1], line });
        shapes.push({ type: "line", y0: cut - 0.5, y1: cut - 0.5, x0: ends[0], x1: ends[1], line });
      }
    });
    const short = order.map((label) => text(shorts[leaves[label]]));
    const ticks = (range) => {
      const [low, high] = range ? [Math.max(0, Math.ceil(range[0])), Math.min(n - 1, Math.floor(range[1]))] : [0, n - 1];
      const step = Math.max(1, Math.ceil((high - low + 1) / (narrow() ? 14 : MOST_TICKS))), vals = [];
      for (let place = low; place <= high; place += step) vals.push(place);
      return { tickvals: vals.map((place) => names[place]), ticktext: vals.map((place) => short[place]) };
    };
    chart.zoomed = (event) => {
      const x = event["xaxis.range[0]"] === undefined ? null : [event["xaxis.range[0]"], event["xaxis.range[1]"]];
      const y = event["yaxis.range[0]"] === undefined ? null : [event["yaxis.range[1]"], event["yaxis.range[0]"]];
      if (!x && !y && !event["xaxis.autorange"]) return;
      const [across, down] = [ticks(x), ticks(y)];
      Plotly.relayout(chart.plot, {
        "xaxis.tickvals": across.tickvals, "xaxis.ticktext": across.ticktext, "yaxis.tickvals": down.tickvals, "yaxis.ticktext": down.ticktext,
      });
    };
    const side = { type: "category", showgrid: false, constrain: "domain", tickfont: { size: 10 }, fixedrange: false, ...ticks(null) };
    const width = Math.min(chart.plot.clientWidth, 860);
    return [traces, layout({
      height: narrow() ? width + 40 : width, width, shapes,
      xaxis: axis({ ...side, tickangle: -90, range: [-0.5, n - 0.5] }),
      yaxis: axis({ ...side, range: [n - 0.5, -0.5], scaleanchor: "x" }),
    })];
  },

  map(chart, c) {
    if (!c.maps.length) return null;
    const drawn = c.maps[choice(chart, "Run", c.maps.map((m, place) => [place, c.runs[m.run].short]), Math.max(0, c.maps.findIndex((m) => m.run !== c.reference)))];
    const levels = c.levels.map((level) => level.name);
    const level = choice(chart, "Colour by", levels.map((name) => [name, name]), c.coarse);
    const labels = Array.from(new Uint32Array(bytes(drawn.labels).buffer)), x = unpack(drawn.x), y = unpack(drawn.y);
    const own = c.tree.groups[level], nodes = [...new Set(c.tree.order.map((label) => own[label]))];
    const number = new Map(nodes.map((node, place) => [node, place]));
    const hover = labels.map((label) => {
      const path = [];
      for (let node = c.tree.leaves[label]; node > 0; node = c.tree.parents[node]) path.unshift(text(c.tree.names[node]));
      return path.join("<br>");
    });
    const trace = (rows, extra) => ({
      type: "scatter", mode: "markers", x: rows.map((row) => x[row]), y: rows.map((row) => y[row]), text: rows.map((row) => hover[row]),
      hovertemplate: "%{text}<extra></extra>",
      marker: {
        size: 6, opacity: 0.75, color: rows.map((row) => paint(number.get(own[labels[row]]))), symbol: rows.map((row) => symbol(number.get(own[labels[row]]))),
      }, ...extra,
    });
    const all = labels.map((_, row) => row), few = nodes.length <= MOST_GROUPS;
    const traces = few
      ? nodes.map((node) => trace(all.filter((row) => own[labels[row]] === node), { name: text(c.tree.shorts[node]) }))
      : [trace(all, {})];
    chart.caption.textContent = `${drawn.method} of ${drawn.shown} of ${drawn.samples} test samples of ${c.runs[drawn.run].name}: near points have similar features, ` +
      `colours and marks are the ${nodes.length} groups of ${level}${nodes.length > 49 ? ", which repeat after 49" : ""}. Point at a sample to see its path in the tree.`;
    const hidden = { visible: false, fixedrange: false };
    return [traces, layout({
      height: narrow() ? 420 : 640, xaxis: axis(hidden), yaxis: axis(hidden),
      showlegend: few && nodes.length > 1 && !(narrow() && nodes.length > 12), legend: narrow() ? { orientation: "h", font: { size: 11 } } : { font: { size: 11 } },
    })];
  },
};

const charts = [...document.querySelectorAll(".chart")].map((box) => {
  const c = DATA.comparisons[box.dataset.comparison];
  const chart = { box, controls: box.querySelector(".controls"), plot: box.querySelector(".plot"), caption: box.querySelector(".caption"), choices: {}, drawn: false };
  chart.draw = () => {
    const made = KINDS[box.dataset.kind](chart, c);
    if (!made) {
      box.hidden = true;
      return;
    }
    chart.drawn = true;
    Plotly.react(chart.plot, ...made, { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["toImage", "lasso2d", "select2d"] });
    chart.plot.removeAllListeners?.("plotly_relayout");
    if (chart.zoomed) chart.plot.on("plotly_relayout", chart.zoomed);
  };
  return chart;
});
const watcher = new IntersectionObserver((seen) => {
  for (const one of seen) {
    const chart = charts.find((other) => other.box === one.target);
    if (one.isIntersecting && !chart.drawn) chart.draw();
  }
}, { rootMargin: "400px" });
for (const chart of charts) watcher.observe(chart.box);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) if (chart.drawn) chart.draw();
});
// A sheet of paper shows everything, in its own colours.
let closed = [];
function print(wanted) {
  printing = wanted;
  if (wanted) closed = [...document.querySelectorAll("details:not([open])")];
  for (const fold of closed) fold.open = wanted;
  for (const chart of charts) if (wanted || chart.drawn) chart.draw();
}
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
