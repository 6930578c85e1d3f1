"use strict";

// Seconds that the charts show.
const SPAN = 600;
const COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"];

// Points of time: {t, paths: {name: [up, down, round trip]}}.
let history = [];
const colors = new Map();

const element = id => document.getElementById(id);

function color(name) {
    if (!colors.has(name)) colors.set(name, COLORS[colors.size % COLORS.length]);
    return colors.get(name);
}

function chart(id, index) {
    const canvas = element(id), scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px sans-serif";
    if (history.length === 0) return;
    const end = history[history.length - 1].t;
    const values = history.flatMap(point => Object.values(point.paths).map(path => path[index] || 0));
    const top = Math.max(1, ...values) * 1.1;
    const names = [...new Set(history.flatMap(point => Object.keys(point.paths)))].sort();
    names.forEach((name, row) => {
        pen.strokeStyle = pen.fillStyle = color(name);
        pen.beginPath();
        let before = false;
        for (const point of history) {
            const value = point.paths[name] && point.paths[name][index];
            if (value === undefined || value === null) { before = false; continue; }
            const x = width - (end - point.t) / SPAN * width, y = height - value / top * (height - 4);
            before ? pen.lineTo(x, y) : pen.moveTo(x, y);
            before = true;
        }
        pen.stroke();
        pen.fillText(name, 6, 14 + 15 * row);
    });
    pen.fillStyle = "#888";
    pen.fillText(top.toFixed(1), width - 50, 14);
}

function table(id, header, words, rows) {
    const row = (tag, cells) => {
        const line = document.createElement("tr");
        cells.forEach((cell, index) => {
            const box = document.createElement(tag);
            box.textContent = cell;
            if (index < words) box.className = "word";
            line.append(box);
        });
        return line;
    };
    element(id).replaceChildren(row("th", header), ...rows.map(cells => row("td", cells)));
}

const number = (value, digits) => value === null || value === undefined ? "–" : value.toFixed(digits);

function show(state) {
    element("head").textContent = `${state.role} ${state.proxy || ""}: ${state.state}${state.why ? ": " + state.why : ""}`;
    element("head").className = state.why ? "bad" : "";
    table("paths", ["interface", "local", "state", "why", "RTT ms", "up Mbit/s", "down Mbit/s", "loss %"], 4,
        state.paths.map(path => [path.interface || "–", path.local, path.state, path.why || path.idle || "",
            number(path.rtt_ms, 1), number(path.sent.mbps, 1), number(path.received.mbps, 1), number(path.loss_percent, 2)]));
    const dropped = state.dropped && state.dropped.full + state.dropped.expired > 0
        ? `; datagrams dropped: ${state.dropped.expired} too old, ${state.dropped.full} for want of room` : "";
    element("tunnels").textContent =
        "Tunnels: " + state.flows.kinds.map(kind => `${kind.active} ${kind.kind}`).join(", ") + dropped;
    table("flows", ["kind", "target", "seconds", "up Mbit/s", "down Mbit/s", "MB"], 2,
        state.flows.top.map(flow => [flow.kind, flow.target, number(flow.age_s, 0), number(flow.sent.mbps, 1),
            number(flow.received.mbps, 1), number((flow.sent.bytes + flow.received.bytes) / 1e6, 1)]));
    chart("down", 1);
    chart("up", 0);
    chart("rtt", 2);
}

async function look() {
    try {
        const answer = await (await fetch("state")).json();
        history = answer.history;
        show(answer.state);
    } catch (error) {
        element("head").textContent = "the process does not respond";
        element("head").className = "bad";
    }
}

look();
setInterval(look, 1000);
