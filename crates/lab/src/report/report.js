const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);

// What can be shown of a run: name, what the axis says, and how it is found in a row.
const METRICS = [
  ["transfer time (s)", (row) => row.transfer_time_s],
  ["last byte (s)", (row) => row.last_byte_s],
  ["bytes repeated (%)", (row) => row.retransmitted_percent],
  ["most times a byte was sent", (row) => row.max_times_sent],
  ["mean ranges in an ACK frame", (row) => row.mean_ranges],
  ["share of ACK frames at the limit", (row) => row.limit_share],
  ["bytes of ACK frames", (row) => row.ack_bytes],
  ["spurious losses (packets)", (row) => row.spurious_losses],
  ["head-of-line blocking (s)", (row) => row.blocked_s],
  ["experimental aggregation benefit", (row) => row.eben],
  ["longest request (s)", (row) => (row.request_delays_s.length ? Math.max(...row.request_delays_s) : null)],
].filter(([, find]) => data.rows.some((row) => find(row) != null));

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#464646", "#56b4e9", "#8c564b"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const variants = [...new Set(data.rows.map((row) => row.variant))];
const commits = [...new Set(data.rows.map((row) => row.commit).filter(Boolean))];
const alone = (variant) => variant.startsWith("quic-path-");
const style = (index) => ({
  color: COLORS[index % COLORS.length],
  dash: DASHES[Math.floor(index / COLORS.length) % DASHES.length],
  width: 2,
});
const key = (run) => `${run.variant}\n${run.point}\n${run.repetition}`;
const timelines = new Map(data.timelines.map((run) => [key(run), run.timeline]));
const rows = new Map(data.rows.map((row) => [key(row), row]));
const plain = { displayModeBar: false, responsive: true };
const layout = (x, y, more) => ({
  margin: { l: 64, r: 16, t: 12, b: 48 },
  xaxis: { title: { text: x }, gridcolor: "#eee", zeroline: false },
  yaxis: { title: { text: y }, gridcolor: "#eee", zeroline: false },
  hovermode: "closest",
  ...more,
});

function cell(row, kind, text) {
  row.appendChild(document.createElement(kind)).textContent = text;
}

function showDistribution() {
  const [label, find] = METRICS[element("metric").value];
  const table = element("summary");
  table.replaceChildren();
  const head = table.insertRow();
  ["variant", "runs", "failed", "n", "10 %", "median", "90 %", "most"].forEach((text) => cell(head, "th", text));
  const traces = variants.map((variant, index) => {
    const all = data.rows.filter((row) => row.variant === variant);
    const runs = all.filter((row) => !row.failure && find(row) != null);
    runs.sort((one, other) => find(one) - find(other));
    const values = runs.map(find);
    const line = table.insertRow();
    const failed = all.filter((row) => row.failure).length;
    cell(line, "td", variant);
    [all.length, failed, values.length].forEach((count) => cell(line, "td", count));
    const shown = (share) => {
      const value = percentile(values, share);
      return value == null ? "–" : Number(value.toPrecision(4));
    };
    [0.1, 0.5, 0.9, 1].forEach((share) => cell(line, "td", shown(share)));
    // The step from 0 is of the first run, too.
    const stepped = [...runs.slice(0, 1), ...runs];
    return {
      name: `${variant} (n = ${values.length})`,
      // One path alone takes so much longer that the others could not be told apart.
      visible: alone(variant) && !variants.every(alone) ? "legendonly" : true,
      ...steps(values),
      customdata: stepped.map(key),
      text: stepped.map((row) => `point ${row.point}, ${row.path_rate_mbps.join(" / ")} Mbit/s, ${row.path_owd_ms.join(" / ")} ms`),
      hovertemplate: "%{x:.4~g}<br>%{text}",
      mode: "lines+markers",
      marker: { size: 4, color: style(index).color },
      line: { shape: "vh", ...style(index) },
    };
  });
  const chart = layout(label, "share of the runs", { showlegend: true });
  if (element("log").checked) chart.xaxis.type = "log";
  Plotly.react("distribution", traces.filter((trace) => trace.x.length), chart, plain);
}

function showRun(row) {
  element("variant").value = row.variant;
  element("point").value = `${row.point}\n${row.repetition}`;
  const timeline = timelines.get(key(row));
  const parts = [
    row.failure ? `failed: ${row.failure}` : `${Number((row.transfer_time_s ?? 0).toPrecision(5))} s`,
    `rates ${row.path_rate_mbps.join(" / ")} Mbit/s`,
    `one-way delays ${row.path_owd_ms.join(" / ")} ms`,
    `seed ${row.seed}`,
    timeline ? "" : "no timeline was kept",
  ];
  element("run").textContent = parts.filter(Boolean).join(" · ");
  const charts = ["sent", "idle", "window", "rtt", "lost", "reordering"];
  if (!timeline) {
    charts.forEach((id) => Plotly.purge(id));
    return;
  }
  const bin = timeline.bin_s;
  const times = timeline.reordering.map((_, index) => (index + 1) * bin);
  const byPath = (id, y, value, more) => {
    const traces = timeline.paths.map((path, index) => ({
      name: `path ${index}`,
      x: times,
      y: value(path),
      mode: "lines",
      ...more,
      line: { ...style(index), ...more.line },
    }));
    Plotly.react(id, traces, layout("time (s)", y, { showlegend: true }), plain);
  };
  const rate = (path) => path.sent.map((bytes) => (bytes * 8) / bin / 1e6);
  byPath("sent", "sent (Mbit/s)", rate, { stackgroup: "sent" });
  // The reason why a path sent nothing more; where it sent, the window or the pacer ended that.
  const reason = (path) => (path.idle ?? []).map((name) => name.replaceAll("_", " ") || "may send");
  byPath("idle", "held back by", reason, { line: { shape: "vh" } });
  byPath("window", "window (kB)", (path) => path.window.map((bytes) => bytes / 1e3), {});
  byPath("rtt", "round trip (ms)", (path) => path.rtt_us.map((time) => time / 1e3), {});
  byPath("lost", "lost (packets)", (path) => path.lost, { line: { shape: "hv" } });
  const depth = { x: times, y: timeline.reordering.map((bytes) => bytes / 1e3), fill: "tozeroy", line: style(3) };
  Plotly.react("reordering", [depth], layout("time (s)", "reordering (kB)", {}), plain);
}

function choose() {
  const [point, repetition] = element("point").value.split("\n");
  const row = rows.get(`${element("variant").value}\n${point}\n${repetition}`);
  if (row) showRun(row);
}

function options(select, entries) {
  for (const [value, text] of entries) select.add(new Option(text, value));
}

const points = new Map();
for (const row of data.rows) {
  const name = row.repetition ? `${row.point} (repetition ${row.repetition})` : `${row.point}`;
  points.set(`${row.point}\n${row.repetition}`, name);
}
options(element("metric"), METRICS.map(([label], index) => [index, label]));
options(element("variant"), variants.map((variant) => [variant, variant]));
options(element("point"), points);
element("about").textContent =
  `${data.rows.length} runs of ${variants.length} variants, commit ${commits.join(" and ") || "unknown"}`;
element("metric").addEventListener("change", showDistribution);
element("log").addEventListener("change", showDistribution);
element("variant").addEventListener("change", choose);
element("point").addEventListener("change", choose);
if (data.rows.length && METRICS.length) {
  showDistribution();
  element("distribution").on("plotly_click", (event) => {
    const row = rows.get(event.points[0].customdata);
    if (row) showRun(row);
  });
  showRun(data.rows[0]);
}
