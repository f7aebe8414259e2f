"use strict";
// Draws the two plots. Names come from a file that others made: plotly reads a little HTML, so they are escaped.
(() => {
  document.documentElement.classList.remove("no-script");
  const data = JSON.parse(document.getElementById("profile-data").textContent);
  const LIGHT = ["#0b6e99", "#d9540b", "#2e8b57", "#a13d97", "#b8860b", "#3f51b5", "#c2185b", "#546e7a"];
  const DARK = ["#56b4e9", "#ff9d5c", "#63d297", "#e08fd6", "#f2cf5b", "#94a3ff", "#ff7fa5", "#a9bcc6"];
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const escapeMarkup = (text) => String(text).replace(/[&<>"'`]/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const kinds = [...new Set([...data.bars, ...data.points].map((row) => `${row.type} · ${row.where}`))];
  const kind = (row) => `${row.type} · ${row.where}`;
  const colour = (name) => (scheme.matches ? DARK : LIGHT)[kinds.indexOf(name) % LIGHT.length];
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const hover = (row) => [`step ${row.step}: ${row.type} (${row.where})`, row.kernel, row.output,
    `${row.us.toFixed(1)} us, ${percent(row.share)}`].filter(Boolean).map(escapeMarkup).join("<br>");

  function layout(extra) {
    const ink = variable("--ink"), line = variable("--line");
    const axis = {gridcolor: line, zerolinecolor: line, linecolor: line};
    return {paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: {color: ink, size: 12},
      margin: {l: 60, r: 20, t: 10, b: 50}, legend: {orientation: "h", y: -0.16}, hovermode: "closest",
      ...extra, xaxis: {...axis, ...extra.xaxis}, yaxis: {...axis, ...extra.yaxis}};
  }

  function bars() {
    const labels = data.bars.map((row) => escapeMarkup(row.label));
    const traces = kinds.map((name) => {
      const rows = data.bars.filter((row) => kind(row) === name);
      return {type: "bar", orientation: "h", name: escapeMarkup(name), x: rows.map((row) => row.us),
        y: rows.map((row) => escapeMarkup(row.label)), text: rows.map((row) => percent(row.share)),
        hovertext: rows.map(hover), hoverinfo: "text", textposition: "auto", marker: {color: colour(name)}};
    }).filter((trace) => trace.x.length);
    return [traces, layout({barmode: "stack", xaxis: {title: {text: "time, microseconds"}},
      yaxis: {categoryorder: "array", categoryarray: labels, autorange: "reversed", automargin: true,
        tickmode: "array", tickvals: labels}})];
  }

  function roofline() {
    const traces = kinds.map((name) => {
      const rows = data.points.filter((row) => kind(row) === name);
      return {type: "scatter", mode: "markers", name: escapeMarkup(name), x: rows.map((row) => row.x),
        y: rows.map((row) => row.y), customdata: rows.map((row) => row.step), hovertext: rows.map(hover),
        hoverinfo: "text", marker: {color: colour(name), opacity: 0.8,
          size: rows.map((row) => 7 + 34 * Math.sqrt(row.share))}};
    }).filter((trace) => trace.x.length);
    if (data.roof) {
      const ridge = data.roof.gflops / data.roof.gbytes;
      const xs = [...data.points.map((row) => row.x), ridge];
      const ends = [Math.min(...xs) / 2, ridge, Math.max(...xs) * 2];
      traces.push({type: "scatter", mode: "lines", name: "one core's float32 roof", x: ends,
        y: ends.map((x) => Math.min(data.roof.gflops, data.roof.gbytes * x)), hoverinfo: "skip",
        line: {color: variable("--soft"), width: 2, dash: "dash"}});
    }
    return [traces, layout({xaxis: {type: "log", title: {text: "operations a byte"}},
      yaxis: {type: "log", title: {text: "10⁹ operations a second"}}})];
  }

  function draw() {
    const options = {responsive: true, displaylogo: false};
    for (const [id, make] of [["plot-operators", bars], ["plot-roofline", roofline]]) {
      const [traces, shape] = make();
      if (document.getElementById(id)) Plotly.react(id, traces, shape, options);
    }
  }

  draw();
  scheme.addEventListener("change", draw);
})();
