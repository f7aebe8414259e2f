"use strict";
// Draws the plots and runs filters, sorting and comparison. Names come from users: text goes into the page through
// textContent alone, and into plotly (which reads a little HTML) through escapeMarkup.
(async () => {
  document.documentElement.classList.remove("no-script");
  const unfold = () => {  // a link to a folded section opens it
    const fold = document.getElementById(location.hash.slice(1))?.querySelector(":scope > details.fold");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const said = document.getElementById(button.dataset.copy);
      getSelection().selectAllChildren(said);  // a page inside another one may not write: the user copies what is selected
      try {
        await navigator.clipboard.writeText(said.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Selected";
      }
    });
  }
  unfold();
  // Before the data is unpacked: a page may be printed at once.
  const reasons = document.querySelectorAll("details.reasons, .plots ~ details");
  addEventListener("beforeprint", () => { reasons.forEach((fold) => { fold.open = true; }); });
  const data = await window.unpacked.catch((error) => ({error: `${error.message}: this browser is too old to unpack it`}));
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "pentagon", "star-triangle-down", "hexagon"];
  const GLYPHS = ["●", "■", "◆", "▲", "✚", "⬟", "▼", "⬢"];
  const LIGHT = ["#0b6e99", "#d9540b", "#2e8b57", "#a13d97", "#b8860b", "#3f51b5", "#c2185b", "#546e7a"];
  const DARK = ["#56b4e9", "#ff9d5c", "#63d297", "#e08fd6", "#f2cf5b", "#94a3ff", "#ff7fa5", "#a9bcc6"];
  const LABELS = 9;
  const NARROW = 560;
  const DRAWN_AFTER_MS = 3000;
  const [ACCURACY, LATENCY, P90, SIZE, MEMORY, DROP, HELD_OUT] = [0, 1, 2, 3, 4, 5, 6];
  const UNIT = {[ACCURACY]: "%", [LATENCY]: "ms", [P90]: "ms", [SIZE]: "MB", [MEMORY]: "MB", [DROP]: "points",
    [HELD_OUT]: "%"};
  const METRIC = data.metric;
  const TITLE = {[ACCURACY]: METRIC, [HELD_OUT]: `${METRIC} on the hold-out`, [LATENCY]: "Latency",
    [P90]: "p90 latency", [SIZE]: "File size",
    [MEMORY]: "Peak memory", [DROP]: "Lost by compression"};

  const rows = (data.rows || []).map((row, index) => ({index, ...row}));
  let chosen = (data.compare || []).slice(0, 2);
  let latencyShown = P90;
  let printing = false;

  const escapeMarkup = (text) => String(text).replace(/[&<>"'`]/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const scale = (quantity) => (quantity === SIZE || quantity === MEMORY ? 1e6 : 1);
  const at = (row, quantity) => (row.q[quantity] ? row.q[quantity][0] / scale(quantity) : null);
  const end = (row, quantity, which) => (row.q[quantity] && row.q[quantity][which] !== null ?
    row.q[quantity][which] / scale(quantity) : null);
  const number = (value) => (value === null || value === undefined ? "–" :
    (Math.abs(value) >= 99.95 ? value.toFixed(0) : Math.abs(value) >= 9.995 ? value.toFixed(1) : value.toFixed(2))
      .replace("-", "−"));
  const inPoints = (quantity) => quantity === ACCURACY || quantity === HELD_OUT || quantity === DROP;
  const shownAs = (row, quantity) => {
    const value = at(row, quantity);
    return value === null ? "–" : inPoints(quantity) ? value.toFixed(1) : number(value);
  };
  const latencyOf = (row) => (row.q[latencyShown] ? latencyShown : LATENCY);
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const name = (row) => `${row.card} ${row.variant}, ${row.device === "host" ? "" : `${row.device}, `}${plural(row.threads, "thread")}`;

  // Filters

  const form = $("#filters");
  const boxes = (field) => $$(`input[name="${field}"]`, form);
  const fields = $$("fieldset[data-field]", form || document).map((group) => group.dataset.field);

  function visible() {
    const allowed = fields.map((field) => [field, new Set(boxes(field).filter((b) => b.checked).map((b) => b.value))]);
    const only = boxes("only").filter((box) => box.checked).map((box) => box.value);
    return rows.filter((row) => allowed.every(([field, values]) => values.has(String(row[field]))) &&
      only.every((flag) => row[flag]));
  }

  function applyFilters() {
    const shown = visible();
    const indices = new Set(shown.map((row) => row.index));
    for (const line of $$("#all tbody tr")) line.hidden = !indices.has(Number(line.dataset.i));
    $("#shown").textContent = `${shown.length} of ${rows.length} shown`;
    drawPlots(shown);
  }

  // Plots

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const value = (key) => style.getPropertyValue(key).trim();
    const dark = !printing && matchMedia("(prefers-color-scheme: dark)").matches;
    return printing ?
      {ink: "#15202b", soft: "#5b6875", line: "#dfe4ea", over: "#d9540b14", warn: "#a34b06", card: "#fff",
        halo: "rgba(255,255,255,.75)", colors: LIGHT} :
      {ink: value("--ink"), soft: value("--soft"), line: value("--line"), over: value("--over"), warn: value("--warn"),
        card: value("--card"), halo: value("--halo"), colors: dark ? DARK : LIGHT};
  }

  const colorOf = (family, colors) => colors[Math.max(0, data.families.indexOf(family)) % colors.length];
  const symbolOf = (row) => SYMBOLS[Math.max(0, data.compressions.indexOf(row.compression)) % SYMBOLS.length];

  function hover(row) {
    const line = (quantity) => {
      const entry = row.q[quantity];
      if (!entry) return "";
      const ends = entry[1] !== entry[2] && entry[1] !== null && entry[2] !== null ?
        ` (${(entry[1] / scale(quantity)).toPrecision(3)} to ${(entry[2] / scale(quantity)).toPrecision(3)})` : "";
      const origin = escapeMarkup(data.sources[entry[3]]).slice(0, 60);
      return `${TITLE[quantity]}: <b>${shownAs(row, quantity)} ${UNIT[quantity]}</b>${ends} · ${origin}`;
    };
    const roles = [row.pick && "the pick", row.tie && "tied", row.front && "front",
      !row.meets && "over the budget", row.contended && "machine was busy"].filter(Boolean);
    return [`<b>${escapeMarkup(row.card)} ${escapeMarkup(row.variant)}</b>`,
      `${escapeMarkup(row.family)} · ${plural(row.threads, "thread")} · ${escapeMarkup(row.device)} · ` +
      `${escapeMarkup(row.training)} · ${escapeMarkup(row.licence)}`,
      ...(row.budget_probability === undefined ? [] : [`${(100 * row.budget_probability).toFixed(0)}\u00a0% sure to meet the budget`]),
      ...[ACCURACY, HELD_OUT, LATENCY, P90, SIZE, MEMORY, DROP].map(line).filter(Boolean), roles.join(", ")].join("<br>");
  }

  function errorBars(points, quantityOf, color) {
    const bars = points.map((row) => {
      const quantity = quantityOf(row);
      const [low, high] = [end(row, quantity, 1), end(row, quantity, 2)];
      return low === null || high === null ? [0, 0] : [high - at(row, quantity), at(row, quantity) - low];
    });
    return {type: "data", symmetric: false, array: bars.map((b) => b[0]), arrayminus: bars.map((b) => b[1]),
      color, thickness: 1, width: 0, visible: bars.some((b) => b[0] || b[1])};
  }

  // The legend shows the family's colour on a circle; the symbols of the points stand for the compression.
  function legendTrace(family, colors) {
    return {type: "scatter", mode: "markers", name: escapeMarkup(family || "unnamed"), x: [null], y: [null],
      hoverinfo: "skip", showlegend: true, marker: {color: colorOf(family, colors), size: 10, symbol: "circle"}};
  }

  function familyTrace(family, points, xOf, solid, colors) {
    const color = colorOf(family, colors);
    return {
      type: "scatter", mode: "markers", name: escapeMarkup(family || "unnamed"), showlegend: false,
      x: points.map((row) => at(row, xOf(row))), y: points.map((row) => at(row, ACCURACY)),
      customdata: points.map((row) => row.index), hoverinfo: "text", hovertext: points.map(hover),
      opacity: solid ? 1 : 0.28,
      marker: {color, size: solid ? 11 : 8, symbol: points.map(symbolOf),
        line: {width: solid ? 1 : 0, color: "rgba(255,255,255,.7)"}},
      error_x: errorBars(points, xOf, color), error_y: errorBars(points, () => ACCURACY, color),
    };
  }

  // What nothing beats in this plot's two figures, leftmost first.
  function undominated(points, xOf) {
    const sorted = [...points].sort((a, b) => at(a, xOf(a)) - at(b, xOf(b)) || at(b, ACCURACY) - at(a, ACCURACY));
    let best = -Infinity;
    return sorted.filter((row) => at(row, ACCURACY) > best && ((best = at(row, ACCURACY)), true));
  }

  function stairs(points, xOf, look) {
    const steps = undominated(points, xOf);
    return {type: "scatter", mode: "lines", name: "front in this plot", hoverinfo: "skip", showlegend: false,
      x: steps.map((row) => at(row, xOf(row))), y: steps.map((row) => at(row, ACCURACY)),
      line: {shape: "hv", color: look.soft, width: 1.5, dash: "dot"}};
  }

  function ring(points, xOf, look) {
    return {type: "scatter", mode: "markers", name: "the pick", hoverinfo: "skip", showlegend: points.length > 0,
      x: points.map((row) => at(row, xOf(row))), y: points.map((row) => at(row, ACCURACY)),
      marker: {symbol: "circle-open", size: 23, color: look.ink, line: {width: 2.5, color: look.ink}}};
  }

  function traces(points, xOf, look) {
    const made = [stairs(points.filter((row) => row.front), xOf, look)];
    for (const family of data.families) {
      const own = points.filter((row) => row.family === family);
      const [front, rest] = [own.filter((row) => row.front || row.pick), own.filter((row) => !row.front && !row.pick)];
      if (own.length) made.push(legendTrace(family, look.colors));
      if (rest.length) made.push(familyTrace(family, rest, xOf, false, look.colors));
      if (front.length) made.push(familyTrace(family, front, xOf, true, look.colors));
    }
    return [...made, ring(points.filter((row) => row.pick), xOf, look)];
  }

  function range(values, log, limit, margins) {
    const all = limit === null ? values : [...values, limit];
    const spans = all.filter((value) => value > 0 || !log).map((value) => (log ? Math.log10(value) : value));
    if (!spans.length) return undefined;
    const [low, high] = [Math.min(...spans), Math.max(...spans)];
    const room = (high - low) || Math.abs(high) * 0.1 || 1;
    return [low - margins[0] * room, high + margins[1] * room];
  }

  function limitShapes(axis, limit, log, ends, look) {
    if (limit === null || !ends) return [];
    const last = log ? 10 ** (ends[1] + 3) : ends[1] * 10;
    const line = {type: "line", x0: limit, x1: limit, y0: 0, y1: 1, yref: "paper",
      line: {color: look.warn, width: 2, dash: "dash"}, name: `${axis} budget`};
    return [line, {type: "rect", x0: limit, x1: last, y0: 0, y1: 1, yref: "paper", line: {width: 0},
      fillcolor: look.over, layer: "below", name: "over the budget"}];
  }

  function floorShapes(look) {
    const floor = data.budget.accuracy;
    return floor === null ? [] : [{type: "line", x0: 0, x1: 1, xref: "paper", y0: floor, y1: floor,
      line: {color: look.warn, width: 2, dash: "dash"}, name: "accuracy floor"}];
  }

  // Where the axis of accuracy begins: a few candidates far below the others would press these into one spot.
  function lowest(points) {
    const known = points.map((row) => at(row, ACCURACY)).sort((a, b) => a - b);
    const middle = known[Math.floor(known.length / 2)];
    return middle - 3 * Math.max(known[known.length - 1] - middle, 1);
  }

  function layout(axis, points, xOf, limit, log, unit, title, look) {
    const least = lowest(points);
    const under = points.filter((row) => at(row, ACCURACY) < least).length;
    const ends = range(points.map((row) => at(row, xOf(row))), log, limit, [0.06, 0.12]);
    const heights = points.flatMap((row) => [end(row, ACCURACY, 1), at(row, ACCURACY), end(row, ACCURACY, 2)])
      .filter((value) => value !== null && (under === 0 || value >= least));
    const grid = {gridcolor: look.line, zeroline: false, linecolor: look.line, ticks: "outside", tickcolor: look.line};
    const x = log ? Math.log10(limit) : limit;
    const note = limit === null ? [] : [{x, y: 1, yref: "paper", xanchor: ends && 2 * x > ends[0] + ends[1] ? "right" : "left",
      yanchor: "bottom", text: `budget ${number(limit)} ${unit}`, showarrow: false, font: {color: look.warn, size: 12}}];
    if (under) note.push({x: 0, xref: "paper", xanchor: "left", y: 0, yref: "paper", yanchor: "bottom", showarrow: false,
      text: `▼ ${plural(under, "candidate")} below ${number(least)}\u00a0%`, font: {color: look.soft, size: 12}});
    return {
      autosize: true, margin: {l: 54, r: 16, t: 26, b: 48}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: {family: "system-ui, sans-serif", size: 12, color: look.soft}, hovermode: "closest",
      hoverlabel: {align: "left", bgcolor: look.card, bordercolor: look.soft, font: {color: look.ink, size: 12}},
      xaxis: {...grid, title: {text: title}, type: log ? "log" : "linear", range: ends, ...(log ? logTicks(ends) : {})},
      yaxis: {...grid, title: {text: `${METRIC} (%)`},
        range: range(heights, false, data.budget.accuracy, [0.05, 0.1])},
      shapes: [...limitShapes(axis, limit, log, ends, look), ...floorShapes(look)], annotations: note,
      legend: {orientation: "h", y: -0.2, x: 0, itemclick: false, itemdoubleclick: false, font: {size: 11}},
    };
  }

  // Plain numbers at 1, 2 and 5 read better than powers of ten.
  function logTicks(ends) {
    if (!ends) return {};
    const values = [];
    for (let power = Math.floor(ends[0]); power <= ends[1]; power += 1) {
      for (const digit of ends[1] - ends[0] > 3 ? [1] : [1, 2, 5]) values.push(digit * 10 ** power);
    }
    return {tickvals: values, ticktext: values.map((value) => String(Number(value.toPrecision(3))))};
  }

  // Labels for the pick and the front, each where it covers nothing yet; those without room are left to the hover.
  function labels(plot, points, xOf, look) {
    const {xaxis, yaxis} = plot._fullLayout;
    const taken = [];
    const free = (box) => !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
    const spots = points.map((row) => [row, xaxis.d2p(at(row, xOf(row))), yaxis.d2p(at(row, ACCURACY))]);
    for (const [, x, y] of spots) taken.push([x - 6, y - 6, x + 6, y + 6]);
    const wanted = [...spots].sort((a, b) => (b[0].pick ? 1 : 0) - (a[0].pick ? 1 : 0) || b[0].q[ACCURACY][0] - a[0].q[ACCURACY][0]);
    const made = [];
    for (const [row, x, y] of wanted) {
      if (made.length >= LABELS) break;
      const label = `${row.card} ${row.variant}`.slice(0, 44);
      const width = label.length * 5.9 + 6;
      const near = row.pick ? 18 : 10;
      const places = [[near, -8], [-near - width, -8], [-width / 2, -near - 16], [-width / 2, near], [near, -24], [near, 8],
        [-near - width, -24], [-near - width, 8]];
      for (const [dx, dy] of places) {
        const box = [x + dx, y + dy, x + dx + width, y + dy + 16];
        const inside = box[0] > 0 && box[2] < xaxis._length && box[1] > 0 && box[3] < yaxis._length;
        if (!inside || !free(box)) continue;
        taken.push(box);
        made.push({xref: "x", yref: "y", x: xaxis.type === "log" ? Math.log10(at(row, xOf(row))) : at(row, xOf(row)),
          y: at(row, ACCURACY), text: row.pick ? `<b>${escapeMarkup(label)}</b>` : escapeMarkup(label), showarrow: false,
          xanchor: "left", yanchor: "top", xshift: dx, yshift: -dy, borderpad: 0, font: {size: 11, color: look.ink},
          bgcolor: look.halo});
        break;
      }
    }
    return made;
  }

  const CONFIG = {displaylogo: false, responsive: true, doubleClick: "reset", showSendToCloud: false, showEditInChartStudio: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: {format: "svg"}};
  const PLOTS = [
    {id: "plot-latency", axis: "latency", unit: "ms", scale: 1, xOf: latencyOf,
      title: () => (latencyShown === P90 ? "Latency, p90 (ms)" : "Latency (ms)")},
    {id: "plot-size", axis: "size", unit: "MB", scale: 1e6, xOf: () => SIZE, title: () => "File size (MB)"},
  ];

  // The plots stand below the first screen, and the library that draws them takes a second of a slow phone. So they are
  // drawn when they come near, or a little later, so that a page that is printed has them.
  let plotsWanted = false;

  function drawWhenNear() {
    const target = document.getElementById(PLOTS[0].id);
    const want = () => {
      if (plotsWanted) return;
      plotsWanted = true;
      redraw();
    };
    const near = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) want(); },
      {rootMargin: "300px"});
    if (target) near.observe(target);
    setTimeout(want, DRAWN_AFTER_MS);
  }

  async function drawPlots(shown) {
    if (!plotsWanted) return;
    await window.unpackLibrary();
    const look = theme();
    for (const plot of PLOTS) {
      const target = document.getElementById(plot.id);
      if (!target) continue;
      const points = shown.filter((row) => row.q[ACCURACY] && at(row, plot.xOf(row)) > 0);
      const raw = data.budget[plot.axis];
      const limit = raw === null ? null : raw / plot.scale;
      const drawn = layout(plot.axis, points, plot.xOf, limit, data.log[plot.axis], plot.unit, plot.title(), look);
      if (target.clientWidth < NARROW && !printing) Object.assign(drawn, {showlegend: false, dragmode: false});
      const lines = traces(points, plot.xOf, look);
      if (printing) {
        const below = 10 * lines.filter((line) => line.showlegend !== false).length;  // two names stand beside each other
        Object.assign(drawn, {width: 345, height: 240 + below, autosize: false, margin: {...drawn.margin, b: 54 + below},
          legend: {...drawn.legend, yref: "container", y: 0, yanchor: "bottom"}});
      }
      await Plotly.react(target, lines, drawn, CONFIG);
      const steps = undominated(points.filter((row) => row.front), plot.xOf);
      const named = labels(target, [...steps, ...points.filter((row) => row.pick && !steps.includes(row))], plot.xOf, look);
      await Plotly.relayout(target, {annotations: [...drawn.annotations, ...named]});
      if (!target.dataset.wired) {
        target.dataset.wired = "yes";
        target.on("plotly_click", (event) => {
          const index = event.points[0].customdata;
          if (index !== undefined) choose(index);
        });
      }
    }
  }

  // Comparison

  function choose(index) {
    chosen = chosen.includes(index) ? chosen.filter((other) => other !== index) : [...chosen, index].slice(-2);
    showChosen();
  }

  function showChosen() {
    for (const line of $$("#all tbody tr")) {
      const box = $("input", line);
      if (box) box.checked = chosen.includes(Number(line.dataset.i));
    }
    const table = $("#compare-table");
    if (!table) return;
    table.replaceChildren();
    $("#compare .hint").hidden = chosen.length === 2;
    if (chosen.length) fillComparison(table, chosen.map((index) => rows[index]));
  }

  function cell(line, tag, text, className) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    if (tag === "th") made.scope = line.parentNode && line.parentNode.tagName === "THEAD" ? "col" : "row";
    line.append(made);
    return made;
  }

  function fillComparison(table, pair) {
    const head = table.createTHead().insertRow();
    cell(head, "th", "");
    for (const row of pair) cell(head, "th", name(row), "n");
    if (pair.length === 2) cell(head, "th", "Second compared with first", "n");
    const body = table.createTBody();
    for (const quantity of [ACCURACY, HELD_OUT, LATENCY, P90, SIZE, MEMORY, DROP]) compareLine(body, pair, quantity);
    extraLine(body, pair, "Load (ms)", 0, 1);
    extraLine(body, pair, "First inference (ms)", 1, 1);
    extraLine(body, pair, "Activation arena (MB)", 2, 1e6);
    extraLine(body, pair, "Millions of MACs", 3, 1e6);
    extraLine(body, pair, "Download, deflated (MB)", 4, 1e6);
    extraLine(body, pair, "Download, zstd (MB)", 5, 1e6);
  }

  function compareLine(body, pair, quantity) {
    const line = body.insertRow();
    cell(line, "th", `${TITLE[quantity]} (${UNIT[quantity]})`);
    for (const row of pair) {
      const made = cell(line, "td", shownAs(row, quantity), "n");
      const entry = row.q[quantity];
      if (!entry) continue;
      const note = document.createElement("small");
      const ends = entry[1] === entry[2] || entry[1] === null || entry[2] === null ? "" :
        `${number(entry[1] / scale(quantity))} to ${number(entry[2] / scale(quantity))}, `;
      // A name of an option stays whole: a line may break after a hyphen.
      note.textContent = `${ends}${data.sources[entry[3]]}`.replace(/--(?=[a-z])/g, "-\u2060-\u2060");
      made.append(note);
    }
    if (pair.length === 2) difference(line, pair, quantity);
  }

  function difference(line, [first, second], quantity) {
    const [a, b] = [at(first, quantity), at(second, quantity)];
    if (a === null || b === null) return cell(line, "td", "–", "n");
    const images = [first, second].map((row) => row.q[quantity][4]);
    if (quantity === HELD_OUT && images[0] !== images[1]) {
      // Within a time limit, files run on parts of the hold-out of different sizes.
      return cell(line, "td", `not compared: on ${images[0]} and ${images[1]} images`, "n");
    }
    // A p90 carries no interval of its own: it differs where the medians do.
    const judged = quantity === P90 && first.q[LATENCY] && second.q[LATENCY] ? LATENCY : quantity;
    const low = (row) => end(row, judged, 1) ?? at(row, judged);
    const high = (row) => end(row, judged, 2) ?? at(row, judged);
    const apart = low(first) > high(second) || low(second) > high(first);
    const text = inPoints(quantity) ? `${b - a >= 0 ? "+" : "−"}${Math.abs(b - a).toFixed(1)} points` : ratio(a, b);
    const better = quantity === ACCURACY || quantity === HELD_OUT ? b > a : b < a;
    const verdict = a === b ? "" : apart ? (better ? "better" : "worse") : "";
    const made = cell(line, "td", text, `n ${verdict}`);
    if (a !== b && !apart) {
      const note = document.createElement("small");
      note.textContent = judged === quantity ? "intervals overlap" : "medians' intervals overlap";
      made.append(note);
    }
    return made;
  }

  function ratio(a, b) {
    if (a === b) return "equal";
    if (!(a > 0) || !(b > 0)) return `${b > a ? "+" : "−"}${number(Math.abs(b - a))}`;
    const percent = 100 * (b / a - 1);
    return Math.abs(percent) < 100 ? `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(0)}\u00a0%` : `${(b / a).toFixed(1)} ×`;
  }

  function extraLine(body, pair, title, position, unit) {
    if (pair.every((row) => row.x[position] === null)) return;
    const line = body.insertRow();
    cell(line, "th", title);
    const values = pair.map((row) => (typeof row.x[position] === "number" ? row.x[position] / unit : null));
    for (const value of values) cell(line, "td", number(value), "n");
    if (pair.length === 2) cell(line, "td", values.includes(null) ? "–" : ratio(values[0], values[1]), "n");
  }

  // Sorting

  function sortValue(line, key) {
    const row = rows[Number(line.dataset.i)];
    if (/^\d$/.test(key)) return at(row, Number(key));
    return key === "verdict" ? $(".tag", line).textContent : row[key];
  }

  function sortBy(heading) {
    const body = $("#all tbody");
    const falling = heading.getAttribute("aria-sort") === "ascending";
    for (const other of $$("#all th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const key = heading.dataset.sort;
    const keyed = [...body.rows].map((line) => [sortValue(line, key), line]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
      return falling ? -order : order;
    });
    body.append(...keyed.map(([, line]) => line));
  }

  function wireTable() {
    for (const heading of $$("#all th[data-sort]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => sortBy(heading));
      heading.replaceChildren(button);
    }
    $("#all tbody").addEventListener("change", (event) => choose(Number(event.target.closest("tr").dataset.i)));
  }

  function wireFilters() {
    for (const box of boxes("family")) {
      const dot = document.createElement("i");
      dot.className = "dot";
      dot.dataset.family = box.value;
      box.nextElementSibling.prepend(dot);
    }
    form.addEventListener("change", (event) => {
      if (event.target.name === "latency") latencyShown = event.target.value === "latency" ? LATENCY : P90;
      applyFilters();
    });
    form.addEventListener("reset", () => setTimeout(() => { latencyShown = P90; applyFilters(); }));
    const key = $("#symbols");
    data.compressions.forEach((recipe, index) => cell(key, "span", `${GLYPHS[index % GLYPHS.length]} ${recipe}`));
    cell(key, "span", "◯ the pick");
    cell(key, "span", "┄ front in the plot");
  }

  function paintDots() {
    for (const dot of $$(".dot")) dot.style.background = colorOf(dot.dataset.family, theme().colors);
  }

  function redraw() {
    if (!form) return;
    paintDots();
    drawPlots(visible());
  }

  // A part that fails says so in its place; the rest of the page goes on.
  function attempt(part, place) {
    try {
      part();
    } catch (error) {
      const card = document.createElement("p");
      card.className = "card error";
      card.setAttribute("role", "alert");
      card.textContent = `This part could not be shown: ${error.message}. The tables have every figure.`;
      (place || $("main")).prepend(card);
    }
  }

  if (data.error) {
    attempt(() => { throw new Error(data.error); }, $("#explore") || $("main"));
    return;
  }
  if ($("#all")) attempt(wireTable, $("#evaluations"));
  if ($("#compare")) attempt(showChosen, $("#compare"));
  if (form) attempt(() => { wireFilters(); paintDots(); applyFilters(); drawWhenNear(); }, $("#explore"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { printing = plotsWanted = true; redraw(); });
  addEventListener("afterprint", () => { printing = false; redraw(); });
})();
