/* The page of a graph: folds, lays out, colours and searches. Plain ES2020, no build step. */
(() => {
"use strict";

const DEEPEST = 1000;                                // the range of a colour scale, at most
// Boxes that a page draws at most; the zoom at which texts can be read; widths of the layout.
const MOST_BOXES = 2000, READABLE = 0.8, LEAST = 0.55, LEAST_WHOLE = 0.7, NARROWEST = 440, WIDEST = 4800;
const MOST_HITS = 60, MOST_LINKS = 24;
const PHASES = ["forward", "backward", "update"];
const COLOURS = [["phase", "phase"], ["time", "time"], ["bytes", "bytes"], ["dtype", "dtype"],
  ["kernel", "kernel"], ["group", "group"], ["device", "device"], ["op", "op"]];
const HUES = [212, 28, 148, 342, 266, 186, 52, 4, 100, 302];
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);

/* ---- data ---------------------------------------------------------------------------------- */

const data = JSON.parse(at("data").textContent);
const N = data.count, F = data.folds.count;
const texts = data.texts;
const spread = (column, n) => (Array.isArray(column) ? column : new Array(n).fill(column));
const col = {};
for (const name of ["op", "type", "place", "phase", "home", "arity", "bytes", "results", "name",
  "numbers", "partner", "kernel", "group", "members", "where", "host", "branch", "flops", "ns"]) col[name] = spread(data[name], N);
const fold = {};
for (const name of ["parent", "kind", "label", "class", "path", "phase", "times", "key", "asked"]) {
  fold[name] = spread(data.folds[name], F);
}
const from = new Uint32Array(N + 1);                 // operands of n: operand[from[n] .. from[n+1]]
for (let n = 0; n < N; n++) from[n + 1] = from[n] + col.arity[n];
const operand = new Int32Array(from[N]);
for (let n = 0; n < N; n++) {
  for (let i = from[n]; i < from[n + 1]; i++) operand[i] = n - data.inputs[i];
}
const toUsers = new Uint32Array(N + 1), users = new Int32Array(from[N]);
for (let i = 0; i < operand.length; i++) if (operand[i] >= 0 && operand[i] < N) toUsers[operand[i] + 1]++;
for (let n = 0; n < N; n++) toUsers[n + 1] += toUsers[n];
{
  const next = toUsers.slice();
  for (let n = 0; n < N; n++) {
    for (let i = from[n]; i < from[n + 1]; i++) {
      if (operand[i] >= 0 && operand[i] < N) users[next[operand[i]]++] = n;
    }
  }
}
const partners = new Map();                          // forward op -> backward ops
for (let n = 0; n < N; n++) {
  if (col.partner[n] >= 0) {
    if (!partners.has(col.partner[n])) partners.set(col.partner[n], []);
    partners.get(col.partner[n]).push(n);
  }
}
const isParameter = new Uint8Array(N), isOutput = new Uint8Array(N);
for (const n of data.parameters) isParameter[n] = 1;
for (const n of data.outputs) isOutput[n] = 1;
const isLeaf = (n) => texts[col.op[n]] === "input";
const isMerge = (n) => texts[col.op[n]] === "merge";

const twins = new Map();                             // key -> folds that open together
const inside = Array.from({ length: F }, () => []);  // folds inside a fold
for (let f = 0; f < F; f++) {
  const key = fold.key[f];
  if (!twins.has(key)) twins.set(key, []);
  twins.get(key).push(f);
  if (fold.parent[f] >= 0) inside[fold.parent[f]].push(f);
}
/* Sums of each fold: ops, leaves, bytes, time, flops. A fold comes before the folds inside. */
const sum = { ops: new Float64Array(F), leaves: new Float64Array(F), bytes: new Float64Array(F),
  ns: new Float64Array(F), flops: new Float64Array(F) };
const first = new Int32Array(F).fill(-1);
for (let n = 0; n < N; n++) {
  const f = col.home[n];
  if (isParameter[n]) sum.leaves[f]++; else sum.ops[f]++;
  sum.bytes[f] += col.bytes[n] || 0;
  sum.ns[f] += col.ns[n] || 0;
  sum.flops[f] += col.flops[n] || 0;
  if (first[f] < 0 && !isLeaf(n)) first[f] = n;
}
for (let f = F - 1; f > 0; f--) {
  const up = fold.parent[f];
  if (up < 0) continue;
  for (const name in sum) sum[name][up] += sum[name][f];
  if (first[f] >= 0 && (first[up] < 0 || first[f] < first[up])) first[up] = first[f];
}
const known = { time: sumOf(col.ns) > 0, kernel: some(col.kernel), group: some(col.group),
  device: col.where.some((x) => texts[x] !== "cpu") };
function sumOf(list) { let s = 0; for (const x of list) s += x || 0; return s; }
function some(list) { return list.some((x) => x !== null && x !== undefined); }

/* ---- state --------------------------------------------------------------------------------- */

const opened = new Set(data.folds.opened);           // in the order of opening
const state = { leaves: false, colour: "phase", selected: null, x: 0, y: 0, k: 1 };
let boxes = new Map(), edges = [], columns = [], clusters = [], box = null;

const placeOf = (n) => {
  const [file, line, where, source] = data.places[col.place[n]];
  return { file: texts[file], line, function: texts[where], source: texts[source] };
};
const typeOf = (n) => texts[data.types[col.type[n]][1]];
const dtypeOf = (n) => texts[data.types[col.type[n]][0]];
const shapeText = (n) => typeOf(n).slice(dtypeOf(n).length);
const title = (n) => {
  const name = texts[col.name[n]];
  return isLeaf(n) ? name || "input" : isMerge(n) ? `merge ${name}` : texts[col.op[n]];
};
const isFold = (id) => id >= N;
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
function scaled(x, units, step) {
  let i = 0;
  while (x >= step && i < units.length - 1) { x /= step; i++; }
  return `${i === 0 || x >= 100 ? Math.round(x) : x.toPrecision(3)} ${units[i]}`;
}
const bytesText = (x) => scaled(x, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const timeText = (x) => scaled(x, ["ns", "µs", "ms", "s"], 1000);
const flopsText = (x) => scaled(x, ["flop", "kflop", "Mflop", "Gflop", "Tflop"], 1000);

/* ---- folding ------------------------------------------------------------------------------- */

function ancestors(f) {
  const found = [];
  for (; f >= 0; f = fold.parent[f]) found.push(f);
  return found;
}
/* For each fold the box that stands for it, or -1 where it is open and so are all around it. */
function standIns() {
  const stand = new Int32Array(F);
  for (let f = 0; f < F; f++) {
    const up = fold.parent[f];
    if (up >= 0 && stand[up] >= 0) stand[f] = stand[up];
    else stand[f] = opened.has(f) ? -1 : f;
  }
  return stand;
}
const hidden = (n) => isParameter[n] && !state.leaves;
const empty = (f) => sum.ops[f] === 0 && !(state.leaves && sum.leaves[f]);

function countBoxes() {
  const stand = standIns();
  let count = 0;
  for (let f = 0; f < F; f++) if (stand[f] === f && !empty(f)) count++;
  for (let n = 0; n < N; n++) if (stand[col.home[n]] < 0 && !hidden(n)) count++;
  return count;
}
/* Opens a fold with its twins; folds that were opened earlier close while there are too many boxes. */
function open(f) {
  const wanted = new Set();
  for (const twin of twins.get(fold.key[f])) wanted.add(twin);
  wanted.add(f);
  const keep = new Set();
  for (const twin of wanted) {
    for (const up of ancestors(twin)) keep.add(up);
    opened.delete(twin);
    opened.add(twin);
  }
  for (const up of ancestors(f)) opened.add(up);
  let closed = 0;
  let count = countBoxes();
  for (const old of [...opened]) {
    if (count <= MOST_BOXES) break;
    if (keep.has(old) || fold.parent[old] < 0) continue;
    opened.delete(old);
    closed++;
    count = countBoxes();
  }
  for (const twin of wanted) {
    if (count <= MOST_BOXES || twin === f) continue;
    opened.delete(twin);
    count = countBoxes();
  }
  if (closed) tell(`${plural(closed, "other fold")} closed: a page shows ${MOST_BOXES} boxes at most.`);
}
function close(f) {
  for (const twin of twins.get(fold.key[f])) if (fold.parent[twin] >= 0) opened.delete(twin);
}
/* The number of boxes in each fold, were it open. */
function innerCounts() {
  const inner = new Int32Array(F);
  for (let f = 0; f < F; f++) if (fold.parent[f] >= 0 && !empty(f)) inner[fold.parent[f]]++;
  for (let n = 0; n < N; n++) if (!hidden(n)) inner[col.home[n]]++;
  return inner;
}
function openLevel() {
  const stand = standIns();
  const folded = [];
  for (let f = 0; f < F; f++) if (stand[f] === f && !empty(f)) folded.push(f);
  const size = (f) => inside[f].length;
  folded.sort((a, b) => size(a) - size(b));
  let some = false, left = false, count = countBoxes();
  const inner = innerCounts();
  for (const f of folded) {
    if (opened.has(f)) continue;
    const group = twins.get(fold.key[f]);
    let more = 0;
    for (const twin of group) if (stand[twin] === twin && !empty(twin)) more += inner[twin] - 1;
    if (count + more > MOST_BOXES) { left = true; continue; }
    for (const twin of group) opened.add(twin);
    count += more;
    some = true;
  }
  if (left) tell(`Some stay folded: a page shows ${MOST_BOXES} boxes at most. Click those that matter.`);
  else if (!some) tell("Everything is unfolded.");
}

/* ---- layout -------------------------------------------------------------------------------- */

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function width(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen.font = `${font} system-ui, sans-serif`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}
function clip(text, most, font) {
  if (width(text, font) <= most) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (width(`${text.slice(0, middle)}…`, font) <= most) low = middle; else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
const BIG = "600 13px", SMALL = "11px", MOST_WIDE = 210;
function lines(id) {
  if (isFold(id)) {
    const f = id - N, kind = texts[fold.kind[f]], label = texts[fold.label[f]];
    const name = texts[fold.class[f]];
    const head = kind === "part" ? label : name || label;
    const size = sum.ops[f] ? plural(sum.ops[f], "op") : plural(sum.leaves[f], "parameter");
    const below = kind === "part" ? name : name && name !== label ? label : "";
    return { head, below: below && kind !== "part" ? `${below} · ${size}` : below || size,
      badge: kind === "repeat" ? `× ${fold.times[f]}` : "" };
  }
  return { head: title(id), below: typeOf(id), badge: texts[col.host[id]] ? "host" : "" };
}
function sized(id) {
  const text = lines(id);
  text.head = clip(text.head, MOST_WIDE, BIG);
  text.below = clip(text.below, MOST_WIDE, SMALL);
  const badge = text.badge ? width(text.badge, BIG) + 14 : 0;
  const wide = Math.max(width(text.head, BIG) + badge, width(text.below, SMALL));
  return { id, ...text, width: Math.max(64, Math.ceil(wide) + 24 + (isFold(id) ? 14 : 0)),
    height: isFold(id) ? 46 : 40 };
}
function layout() {
  const stand = standIns();
  box = (n) => {
    const f = stand[col.home[n]];
    return f < 0 ? (hidden(n) ? -1 : n) : empty(f) ? -1 : N + f;
  };
  boxes = new Map();
  edges = [];
  const pictures = new Map();
  for (let f = 0; f < F; f++) {
    if (empty(f) || (stand[f] >= 0 && stand[f] !== f)) continue;
    const open = stand[f] < 0;
    pictures.set(N + f, { ...(open ? { id: N + f, title: width(headingOf(f), "600 11px") + 34 } : sized(N + f)),
      number: N + f, inner: [], isOpen: open, phase: PHASES[fold.phase[f]] });
  }
  for (let n = 0; n < N; n++) {
    if (stand[col.home[n]] < 0 && !hidden(n)) pictures.set(n, { ...sized(n), number: n, inner: [] });
  }
  for (const [id, picture] of pictures) {
    const up = isFold(id) ? fold.parent[id - N] : col.home[id];
    if (up >= 0) pictures.get(N + up).inner.push(picture);
  }
  // Leaves come first; an op, or a fold by its first op, in the order of the program.
  const when = ({ id }) => (isFold(id) ? Math.max(first[id - N], 0) : isLeaf(id) ? id - N : id);
  for (const picture of pictures.values()) picture.inner.sort((a, b) => when(a) - when(b));
  const links = linksOf(stand);
  const shown = [...pictures.values()].filter((p) => p.id >= N && fold.parent[p.id - N] < 0);
  shown.sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase));
  const wide = Math.min(Math.max(at("canvas").clientWidth / READABLE, NARROWEST), WIDEST);
  const { ways } = graphLayout.arranged(shown, links.map(({ a, b, turns }) =>
    ({ start: pictures.get(a), end: pictures.get(b), turns })), wide);
  columns = shown.map((root) => ({ phase: fold.phase[root.id - N], x: root.x, y: root.y,
    width: root.width, height: root.height }));
  clusters = [];
  for (const p of pictures.values()) {
    p.x += p.width / 2;
    p.y += p.height / 2;
    if (!p.isOpen) boxes.set(p.id, p);
    else if (p.parent) clusters.push({ ...p, f: p.id - N, depth: ancestors(p.id - N).length });
  }
  edges = links.map(({ a, b, count, label }, k) => ({ a, b, count, label, ...ways[k] }));
}
/* Edges between visible boxes of a phase; `turns` where they lead to the next turn of a loop. */
function linksOf(stand) {
  const links = new Map();
  const note = (a, b, later, label) => {
    const key = a * (N + F) + b;
    if (!links.has(key)) links.set(key, { a, b, count: 0, turns: false, label: "" });
    const link = links.get(key);
    link.count++;
    link.turns = link.turns || later;
    link.label = label || link.label;
  };
  for (let n = 0; n < N; n++) {
    const to = box(n);
    for (let i = from[n]; i < from[n + 1]; i++) {
      const o = operand[i];
      if (o < 0 || o >= N || col.phase[o] !== col.phase[n]) continue;
      const start = box(o);
      if (start < 0 || to < 0 || start === to) continue;
      note(start, to, o > n, o > n && to === n && isMerge(n) ? texts[col.name[n]] || "next turn" : "");
    }
  }
  for (let f = 0; f < F; f++) {
    const asked = fold.asked[f];
    if (texts[fold.kind[f]] !== "branch" || (stand[f] >= 0 && stand[f] !== f) || empty(f)) continue;
    if (box(asked) === asked && col.phase[asked] === fold.phase[f]) note(asked, N + f, false, texts[fold.label[f]]);
  }
  return [...links.values()];
}
function headingOf(f) {
  const kind = texts[fold.kind[f]], name = texts[fold.class[f]], label = texts[fold.label[f]];
  if (kind === "repeat") return `${name} × ${fold.times[f]}`;
  return kind === "module" && name && name !== label ? `${label}: ${name}` : clip(label, MOST_WIDE, "600 11px");
}

/* ---- colours ------------------------------------------------------------------------------- */

const continuous = () => state.colour === "time" || state.colour === "bytes";
const amount = (id) => {
  const source = state.colour === "time" ? ["ns", col.ns] : ["bytes", col.bytes];
  return isFold(id) ? sum[source[0]][id - N] : source[1][id] || 0;
};
function category(n) {
  switch (state.colour) {
    case "phase": return PHASES[col.phase[n]];
    case "dtype": return dtypeOf(n);
    case "kernel": return col.kernel[n] == null ? null : col.kernel[n];
    case "group": return col.group[n] == null ? null : col.group[n];
    case "device": return texts[col.where[n]];
    default: return texts[col.op[n]];
  }
}
let hues = new Map(), most = 1, least = 1, mixes = new Map();
/* Numbers of ops of each category, for the folded boxes that are visible. */
function paint() {
  hues = new Map();
  mixes = new Map();
  if (continuous()) {
    const found = [...boxes.keys()].map(amount).filter((x) => x > 0);
    most = Math.max(1, ...found);
    least = Math.max(Math.min(most, ...found), most / DEEPEST);
    return;
  }
  const totals = new Map();
  for (let n = 0; n < N; n++) {
    if (isLeaf(n) && state.colour !== "dtype" && state.colour !== "phase") continue;
    const c = category(n);
    if (c === null) continue;
    totals.set(c, (totals.get(c) || 0) + 1);
    const id = box(n);
    if (id < N) continue;
    if (!mixes.has(id)) mixes.set(id, new Map());
    mixes.get(id).set(c, (mixes.get(id).get(c) || 0) + 1);
  }
  let order = [...totals.keys()];
  if (state.colour === "phase") order = PHASES;
  else if (state.colour === "kernel" || state.colour === "group") order.sort((a, b) => a - b);
  else order.sort((a, b) => totals.get(b) - totals.get(a));
  // Kernels and groups take the hues in turn: neighbours differ. Rare ops and dtypes stay grey.
  const turns = state.colour === "kernel" || state.colour === "group";
  order.forEach((c, i) => hues.set(c, { hue: HUES[turns ? i % HUES.length : i], count: totals.get(c) || 0 }));
}
const share = (x) => (most === least ? 1 : x <= least ? 0 : Math.log(x / least) / Math.log(most / least));
function colourOf(id) {
  if (continuous()) {
    const x = amount(id);
    return x > 0 ? { share: share(x) } : {};
  }
  if (!isFold(id)) {
    const found = hues.get(category(id));
    return found && !(isLeaf(id) && state.colour !== "dtype" && state.colour !== "phase") ? { hue: found.hue } : {};
  }
  const mix = mixes.get(id);
  if (!mix) return {};
  if (mix.size === 1) return { hue: hues.get([...mix.keys()][0]).hue };
  const total = [...mix.values()].reduce((a, b) => a + b, 0);
  const strip = [...mix].sort((a, b) => b[1] - a[1]).map(([c, n]) => [hues.get(c).hue, n / total])
    .filter(([hue]) => hue !== undefined);
  return { strip };
}
function dye(element, colour) {
  if (colour.hue !== undefined) {
    element.classList.add("hued");
    element.style.setProperty("--hue", colour.hue);
  } else if (colour.share !== undefined) {
    element.classList.add("hot");
    element.style.setProperty("--share", `${Math.round(100 * colour.share)}%`);
  }
}
function drawLegend() {
  const legend = at("legend");
  legend.replaceChildren();
  const label = (text) => legend.append(make("span", { class: "name" }, text));
  if (continuous()) {
    const text = state.colour === "time" ? timeText : bytesText;
    label(`${state.colour} of a box`);
    const none = ![...boxes.keys()].some((id) => amount(id) > 0);
    if (none) { legend.append(make("span", {}, "not known")); return; }
    const below = [...boxes.keys()].some((id) => amount(id) > 0 && amount(id) < least);
    legend.append(make("span", {}, `${below ? "≤ " : ""}${text(least)}`), make("span", { class: "ramp" }), make("span", {}, text(most)));
    return;
  }
  label(state.colour);
  if (![...hues.values()].some((h) => h.count)) legend.append(make("span", {}, "not known"));
  let shown = 0;
  for (const [name, { hue, count }] of hues) {
    if (!count) continue;
    if (shown++ === HUES.length) {
      legend.append(make("span", {}, `and ${(hues.size - HUES.length).toLocaleString("en")} more`));
      break;
    }
    const chip = make("span", { class: "chip" }, make("i", { class: "hued" }), `${name}`);
    chip.firstChild.style.setProperty("--hue", hue);
    chip.title = plural(count, "op");
    legend.append(chip);
  }
}

/* ---- drawing ------------------------------------------------------------------------------- */

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}
function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}
/* A path that leaves and enters each point upright; straight where it goes back. */
function curve({ points, kind }) {
  const r = (v) => Math.round(v * 10) / 10;
  let [x, y] = points[0], d = `M${r(x)},${r(y)}`;
  for (const [u, v] of points.slice(1)) {
    const bend = (v - y) / 2;
    if (Math.abs(u - x) + Math.abs(v - y) < 0.1) continue;
    if (Math.abs(u - x) < 0.5 || Math.abs(v - y) < 0.5 || kind === "back") d += `L${r(u)},${r(v)}`;
    else d += `C${r(x)},${r(y + bend)} ${r(u)},${r(v - bend)} ${r(u)},${r(v)}`;
    [x, y] = [u, v];
  }
  return d;
}
function describe(id) {
  if (!isFold(id)) return `${title(id)}, ${typeOf(id)}, ${PHASES[col.phase[id]]}`;
  const f = id - N, t = lines(id);
  return `${t.head}${t.badge ? ` times ${fold.times[f]}` : ""}, ${t.below}, ${PHASES[fold.phase[f]]}, folded`;
}
function drawBox(b) {
  const folded = isFold(b.id), x = b.x - b.width / 2, y = b.y - b.height / 2;
  const kind = folded ? texts[fold.kind[b.id - N]] : isLeaf(b.id) ? "leaf" : "op";
  const g = draw("g", { class: `box ${kind}`, "data-id": b.id, tabindex: 0, role: "button",
    "aria-label": describe(b.id) });
  if (folded) g.setAttribute("aria-expanded", "false");
  if (!folded && isOutput[b.id]) g.classList.add("output");
  const colour = colourOf(b.id);
  dye(g, colour);
  const radius = kind === "leaf" ? b.height / 2 : folded ? 8 : 6;
  if (kind === "repeat") {
    for (const d of [7, 3.5]) {
      g.append(draw("rect", { class: "back", x: x + d, y: y + d, width: b.width, height: b.height, rx: radius }));
    }
  }
  g.append(draw("rect", { class: "face", x, y, width: b.width, height: b.height, rx: radius }));
  if (colour.strip) {
    let left = x + 8;
    for (const [hue, part] of colour.strip) {
      const piece = draw("rect", { class: "piece", x: left, y: y + b.height - 6, width: Math.max(part * (b.width - 16), 0.5), height: 3 });
      piece.style.setProperty("--hue", hue);
      g.append(piece);
      left += part * (b.width - 16);
    }
  }
  const left = x + 12;
  g.append(draw("text", { class: "head", x: left, y: y + 18 }, b.head));
  g.append(draw("text", { class: "below", x: left, y: y + 33 }, b.below));
  if (b.badge) g.append(draw("text", { class: "badge", x: x + b.width - 26, y: y + 18, "text-anchor": "end" }, b.badge));
  if (folded) g.append(draw("path", { class: "sign", d: `M${x + b.width - 18},${y + 13.5}h8m-4,-4v8` }));
  g.append(draw("title", {}, folded ? `${texts[fold.path[b.id - N]] || b.head}\n${describe(b.id)}` : tip(b.id)));
  return g;
}
function tip(n) {
  const p = placeOf(n), path = texts[fold.path[col.home[n]]];
  return [describe(n), path, p.file ? `${p.file}:${p.line}` : "", p.source].filter(Boolean).join("\n");
}
/* The frame of an unfolded fold, or its heading, which lies above the edges. */
function drawCluster(c, heading) {
  const x = c.x - c.width / 2, y = c.y - c.height / 2, f = c.f;
  const kind = texts[fold.kind[f]], text = headingOf(f);
  const g = draw("g", { class: `cluster ${c.depth % 2 ? "odd" : "even"} ${kind}`, "data-fold": f });
  if (!heading) {
    g.append(draw("rect", { class: "frame", x, y, width: c.width, height: c.height, rx: 10 }));
    return g;
  }
  const head = draw("g", { class: "title", tabindex: 0, role: "button", "aria-expanded": "true",
    "aria-label": `${text}, unfolded`, "data-id": N + f });
  const shown = clip(text, Math.max(c.width - 40, 30), "600 11px");
  head.append(draw("rect", { class: "grip", x: x + 4, y: y + 3, width: Math.min(c.width - 8, width(shown, "600 11px") + 34), height: 18, rx: 6 }));
  head.append(draw("path", { class: "sign", d: `M${x + 10},${y + 12}h8` }));
  head.append(draw("text", { x: x + 24, y: y + 16 }, shown));
  head.append(draw("title", {}, `${texts[fold.path[f]] || text}\n${plural(sum.ops[f], "op")}; click folds`));
  g.append(head);
  return g;
}
function render() {
  const world = at("world");
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.id : undefined;
  world.replaceChildren();
  paint();
  for (const column of columns) {
    world.append(draw("text", { class: "phase-name", x: column.x + 12, y: column.y + 12 }, PHASES[column.phase]));
  }
  clusters.sort((a, b) => a.depth - b.depth);
  for (const c of clusters) world.append(drawCluster(c, false));
  const near = state.selected;
  for (const e of edges) {
    const path = draw("path", { class: `edge ${e.kind}`, d: curve(e), "data-a": e.a, "data-b": e.b });
    if (e.count > 1) path.classList.add("many");
    world.append(path);
  }
  for (const c of clusters) world.append(drawCluster(c, true));
  for (const e of edges) {
    if (!e.label) continue;
    const [x, y] = e.points[e.points.length - 1];
    world.append(draw("text", { class: "word", x: x + 7, y: y - 7 }, e.label));
  }
  for (const b of boxes.values()) world.append(drawBox(b));
  drawLegend();
  mark(near);
  if (focused !== undefined) {
    const again = world.querySelector(`[data-id="${Number(focused)}"]`);
    if (again) again.focus({ preventScroll: true });
  }
  move();
}
/* The box of an op, or of the fold around it. */
const visibleBox = (id) => {
  if (boxes.has(id)) return id;
  if (!isFold(id)) {
    const found = box(id);
    return found >= 0 ? found : -1;
  }
  for (const f of ancestors(id - N)) if (boxes.has(N + f)) return N + f;
  return -1;
};
/* Shows the selection, its edges, its partners, and its edges to other phases. */
function mark(id) {
  const world = at("world");
  for (const e of world.querySelectorAll(".on, .partner, .selected")) e.classList.remove("on", "partner", "selected");
  for (const e of world.querySelectorAll(".cross")) e.remove();
  state.selected = id;
  if (id === null) return;
  const shown = visibleBox(id);
  const element = (i) => world.querySelector(`.box[data-id="${i}"]`);
  const title = world.querySelector(`.title[data-id="${id}"]`);
  if (title) {
    for (const part of world.querySelectorAll(`[data-fold="${id - N}"]`)) part.classList.add("selected");
    return;
  }
  if (shown < 0) return;
  const main = element(shown), before = world.querySelector(".cluster .title, .box").closest(".cluster, .box");
  if (!main) return;
  main.classList.add("selected");
  for (const e of world.querySelectorAll(`.edge[data-a="${shown}"], .edge[data-b="${shown}"]`)) {
    e.classList.add("on");
    world.insertBefore(e, before);
  }
  const others = new Set();
  if (isFold(id)) {
    for (const twin of twins.get(fold.key[id - N])) if (N + twin !== id) others.add(visibleBox(N + twin));
  } else {
    if (col.partner[id] >= 0) others.add(visibleBox(col.partner[id]));
    for (const n of partners.get(id) || []) others.add(visibleBox(n));
    const across = new Map();
    for (let i = from[id]; i < from[id + 1]; i++) {
      if (operand[i] >= 0 && operand[i] < N && col.phase[operand[i]] !== col.phase[id]) across.set(visibleBox(operand[i]), true);
    }
    for (let i = toUsers[id]; i < toUsers[id + 1]; i++) {
      if (col.phase[users[i]] !== col.phase[id]) across.set(visibleBox(users[i]), false);
    }
    for (const [other, into] of across) {
      const a = boxes.get(into ? other : shown), b = boxes.get(into ? shown : other);
      if (!a || !b || a === b) continue;
      const way = Math.sign(b.x - a.x) || 1, x1 = a.x + way * a.width / 2, x2 = b.x - way * b.width / 2;
      const bend = (x2 - x1) / 2;
      world.insertBefore(draw("path", { class: "edge cross on",
        d: `M${x1},${a.y} C${x1 + bend},${a.y} ${x2 - bend},${b.y} ${x2},${b.y}` }), before);
    }
  }
  for (const other of others) if (other >= 0 && other !== shown && element(other)) element(other).classList.add("partner");
}

/* ---- view ---------------------------------------------------------------------------------- */

const canvas = at("canvas");
function move() {
  at("world").setAttribute("transform", `translate(${state.x},${state.y}) scale(${state.k})`);
}
function bounds() {
  let [l, t, r, b] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const c of columns) {
    l = Math.min(l, c.x); t = Math.min(t, c.y);
    r = Math.max(r, c.x + c.width); b = Math.max(b, c.y + c.height);
  }
  return { l, t, r, b };
}
function fit() {
  if (!columns.length) return;
  const { l, t, r, b } = bounds(), w = canvas.clientWidth;
  const h = canvas.clientHeight - at("legend").offsetHeight - 14;
  state.k = Math.min((w - 24) / (r - l), (h - 24) / (b - t), 1.25);
  state.x = (w - (l + r) * state.k) / 2;
  state.y = (h - (t + b) * state.k) / 2;
  move();
}
/* The first view: all, or the beginning of it where all would be too small to read. */
function start() {
  fit();
  if (state.k >= LEAST_WHOLE) return;
  const { l, t, r } = bounds(), w = canvas.clientWidth;
  state.k = Math.min(Math.max((w - 16) / (r - l), LEAST), 1);
  state.x = (r - l) * state.k <= w ? (w - (l + r) * state.k) / 2 : 8 - l * state.k;
  state.y = 8 - t * state.k;
  move();
}
function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const k = Math.min(Math.max(state.k * factor, 0.02), 6);
  state.x = x - (x - state.x) * k / state.k;
  state.y = y - (y - state.y) * k / state.k;
  state.k = k;
  move();
}
function centre(id) {
  const b = boxes.get(visibleBox(id));
  if (!b) return;
  state.k = Math.max(state.k, 0.8);
  const panel = at("panel"), covered = !panel.hidden && innerWidth < 720 ? panel.offsetHeight : 0;
  state.x = canvas.clientWidth / 2 - b.x * state.k;
  state.y = (canvas.clientHeight - covered) / 2 - b.y * state.k;
  move();
}
const centreOf = (id) => {
  const b = boxes.get(id);
  if (b) return { x: b.x, y: b.y - b.height / 2 };
  const c = clusters.find((x) => x.f === id - N);
  return c ? { x: c.x, y: c.y - c.height / 2 } : null;
};
/* Lays out again; the box that was clicked stays where it is. */
function refresh(anchor) {
  const before = anchor === undefined ? null : centreOf(anchor);
  layout();
  const after = before && centreOf(anchor);
  if (before && after) {
    state.x += (before.x - after.x) * state.k;
    state.y += (before.y - after.y) * state.k;
  }
  render();
}

/* ---- details ------------------------------------------------------------------------------- */

const link = (n) => {
  const path = texts[fold.path[col.home[n]]];
  const button = make("button", { class: "link" }, make("b", {}, title(n)), ` ${typeOf(n)}`);
  if (path) button.append(make("small", {}, ` ${path}`));
  button.addEventListener("click", () => jump(n));
  return make("li", {}, button);
};
function list(name, ids) {
  if (!ids.length) return [];
  const items = ids.slice(0, MOST_LINKS).map(link);
  if (ids.length > MOST_LINKS) items.push(make("li", {}, `and ${ids.length - MOST_LINKS} more`));
  return [make("h3", {}, `${name} (${ids.length})`), make("ol", {}, ...items)];
}
function rows(pairs) {
  const table = make("dl", {});
  for (const [name, value] of pairs) {
    if (value === "" || value === null || value === undefined) continue;
    table.append(make("dt", {}, name), make("dd", {}, value));
  }
  return table;
}
const number = (x) => (typeof x === "number" && !Number.isInteger(x) ? `${Number(x.toPrecision(5))}` : `${x}`);
function histogram(counts, ends) {
  const top = Math.max(1, ...counts), wide = 240, tall = 64, step = wide / counts.length;
  const picture = draw("svg", { class: "histogram", viewBox: `0 0 ${wide} ${tall + 14}`, role: "img",
    "aria-label": `Histogram of ${plural(counts.reduce((a, b) => a + b, 0), "value")}` });
  counts.forEach((count, i) => {
    const height = count ? Math.max(1, count / top * tall) : 0;
    const bar = draw("rect", { x: i * step + 0.5, y: tall - height, width: Math.max(step - 1, 0.5), height });
    bar.append(draw("title", {}, `${count}`));
    picture.append(bar);
  });
  if (ends) {
    picture.append(draw("text", { x: 0, y: tall + 11 }, number(ends[0])),
      draw("text", { x: wide, y: tall + 11, "text-anchor": "end" }, number(ends[1])));
  }
  return picture;
}
/* A histogram is counts, or counts with edges; everything else is a row. */
function summary(values) {
  const found = [make("h3", {}, "Values")], pairs = [];
  for (const [name, value] of Object.entries(values)) {
    const counts = Array.isArray(value) ? value : value && typeof value === "object" ? value.counts : null;
    if (/^(histogram|counts)$/.test(name) && Array.isArray(counts) && counts.every((x) => typeof x === "number")) {
      const edges = (value && value.edges) || values.edges;
      const ends = edges ? [edges[0], edges[edges.length - 1]] : "min" in values && "max" in values ? [values.min, values.max] : null;
      found.push(histogram(counts, ends));
    } else if (name !== "edges") {
      pairs.push([name, typeof value === "object" && value !== null ? JSON.stringify(value) : number(value)]);
    }
  }
  const table = rows(pairs);
  for (const dd of table.querySelectorAll("dd")) {
    if (/nan|inf/i.test(dd.previousSibling.textContent) && Number(dd.textContent) > 0) dd.classList.add("bad");
  }
  found.push(table);
  return found;
}
function lineOf(n) {
  const p = placeOf(n);
  if (!p.file) return [];
  const found = [make("div", { class: "where" }, `${p.file}:${p.line}`, p.function ? make("small", {}, ` in ${p.function}`) : "")];
  if (p.source) found.push(make("pre", { tabindex: 0 }, p.source));
  return found;
}
function showPanel(id) {
  const panel = at("panel");
  panel.replaceChildren();
  const closing = make("button", { class: "close", "aria-label": "Close details", title: "Close (Esc)" }, "✕");
  closing.addEventListener("click", hidePanel);
  panel.append(closing);
  if (isFold(id)) {
    const f = id - N, kind = texts[fold.kind[f]], t = lines(id);
    panel.append(make("h2", {}, t.head, t.badge ? make("small", {}, ` ${t.badge}`) : ""));
    const toggle = make("button", { class: "action" }, opened.has(f) ? "Fold" : "Unfold");
    toggle.addEventListener("click", () => { if (opened.has(f)) close(f); else open(f); refresh(id); showPanel(id); });
    if (kind !== "phase") panel.append(toggle);
    panel.append(rows([["module", texts[fold.path[f]]], ["class", kind === "part" ? "" : texts[fold.class[f]]],
      ["kind", kind], ["blocks", kind === "repeat" ? fold.times[f] : ""], ["phase", PHASES[fold.phase[f]]],
      ["ops", sum.ops[f].toLocaleString("en")], ["parameters", sum.leaves[f] || ""], ["bytes", bytesText(sum.bytes[f])],
      ["time", sum.ns[f] ? timeText(sum.ns[f]) : ""], ["flops", sum.flops[f] ? flopsText(sum.flops[f]) : ""]]));
    if (first[f] >= 0) panel.append(make("h3", {}, "First op"), ...lineOf(first[f]), make("ol", {}, link(first[f])));
  } else {
    const name = texts[col.name[id]], operands = [...operand.slice(from[id], from[id + 1])].filter((n) => n >= 0 && n < N);
    panel.append(make("h2", {}, title(id)), ...lineOf(id));
    panel.append(rows([["name", isLeaf(id) ? "" : name], ["module", texts[fold.path[col.home[id]]]],
      ["class", classAround(id)], ["shape", shapeText(id)], ["dtype", dtypeOf(id)], ["bytes", bytesText(col.bytes[id])],
      ["flops", col.flops[id] == null ? "" : flopsText(col.flops[id])],
      ["time", col.ns[id] == null ? "" : timeText(col.ns[id])], ["numbers", texts[col.numbers[id]]],
      ["results", col.results[id] > 1 ? col.results[id] : ""], ["kernel", col.kernel[id]], ["group", col.group[id]],
      ["device", known.device ? texts[col.where[id]] : ""], ["on the host", texts[col.host[id]]],
      ["members", col.members[id]], ["branch", texts[col.branch[id]]],
      ["phase", PHASES[col.phase[id]]], ["number", id], ["output", isOutput[id] ? "yes" : ""]]));
    if (data.values[id]) panel.append(...summary(data.values[id]));
    panel.append(...list("Operands", operands), ...list("Users", [...new Set(users.slice(toUsers[id], toUsers[id + 1]))]));
    if (col.partner[id] >= 0) panel.append(...list("Gradient of", [col.partner[id]]));
    panel.append(...list("Gradient ops", partners.get(id) || []));
  }
  const was = panel.hidden;
  panel.hidden = false;
  panel.scrollTop = 0;
  return was;
}
function classAround(n) {
  for (const f of ancestors(col.home[n])) if (texts[fold.kind[f]] === "module") return texts[fold.class[f]];
  return "";
}
function hidePanel() {
  const id = state.selected, held = at("panel").contains(document.activeElement);
  at("panel").hidden = true;
  mark(null);
  if (held) (at("world").querySelector(`[data-id="${id}"]`) || canvas).focus({ preventScroll: true });
}
function select(id) {
  mark(id);
  showPanel(id);
}
function activate(id) {
  if (isFold(id)) {
    const f = id - N;
    if (opened.has(f) && standIns()[f] < 0) close(f); else open(f);
    state.selected = id;
    refresh(id);
    select(id);
    const again = at("world").querySelector(`[data-id="${id}"]`);
    if (again) again.focus({ preventScroll: true });
  } else select(id);
}
/* Unfolds everything around an op or a fold, and shows it. */
function jump(id) {
  if (!isFold(id) && isParameter[id] && !state.leaves) {
    state.leaves = true;
    at("leaves").setAttribute("aria-pressed", "true");
  }
  const up = isFold(id) ? fold.parent[id - N] : col.home[id];
  if (up >= 0) for (const f of ancestors(up).reverse()) if (!opened.has(f)) open(f);
  layout();
  render();
  select(id);
  centre(id);
  const element = at("world").querySelector(`[data-id="${visibleBox(id)}"]`);
  if (element && !at("search").contains(document.activeElement)) element.focus({ preventScroll: true });
}
let told = 0;
function tell(text) {
  at("status").textContent = text;
  clearTimeout(told);
  told = setTimeout(() => { at("status").textContent = ""; }, 6000);
}

/* ---- search -------------------------------------------------------------------------------- */

let lower = null, hitIds = [], current = -1;
function wordHits(word) {
  if (!lower) {
    lower = texts.map((t) => t.toLowerCase());
  }
  const text = lower.map((t) => t.includes(word));
  const places = data.places.map((p) => text[p[0]] || text[p[2]] || text[p[3]]
    || `${lower[p[0]].slice(lower[p[0]].lastIndexOf("/") + 1)}:${p[1]}`.includes(word));
  const types = data.types.map((t) => text[t[1]]);
  const folds = Array.from({ length: F }, (_, f) => text[fold.path[f]] || (texts[fold.kind[f]] !== "part" && text[fold.class[f]]));
  const own = Array.from({ length: F }, (_, f) => text[fold.path[f]] || text[fold.class[f]] || (texts[fold.kind[f]] !== "phase" && text[fold.label[f]]));
  return { node: (n) => text[col.op[n]] || text[col.name[n]] || text[col.numbers[n]] || types[col.type[n]]
    || places[col.place[n]] || folds[col.home[n]] || PHASES[col.phase[n]] === word || `#${n}` === word,
    fold: (f) => own[f] };
}
function search() {
  const words = at("query").value.toLowerCase().match(/\S+/g) || [];
  const list = at("hits");
  list.replaceChildren();
  hitIds = [];
  current = -1;
  at("query").removeAttribute("aria-activedescendant");
  if (!words.length) { showHits(false); return; }
  const tests = [words.join(" "), ...words].map(wordHits);
  const all = (kind, id) => tests[0][kind](id) || tests.slice(1).every((t) => t[kind](id));
  let total = 0;
  for (let f = 0; f < F; f++) {
    if (fold.parent[f] >= 0 && texts[fold.kind[f]] !== "part" && all("fold", f)) {
      total++;
      if (hitIds.length < MOST_HITS / 3) hitIds.push(N + f);
    }
  }
  for (let n = 0; n < N; n++) {
    if (all("node", n)) {
      total++;
      if (hitIds.length < MOST_HITS) hitIds.push(n);
    }
  }
  hitIds.forEach((id, i) => {
    const item = make("li", { role: "option", id: `hit${i}`, "aria-selected": "false" });
    if (isFold(id)) {
      const t = lines(id);
      item.append(make("b", {}, t.head), ` ${t.badge} `, make("small", {}, `${texts[fold.path[id - N]]} · ${PHASES[fold.phase[id - N]]}`));
    } else {
      const p = placeOf(id), file = p.file.slice(p.file.lastIndexOf("/") + 1);
      item.append(make("b", {}, title(id)), ` ${typeOf(id)} `,
        make("small", {}, [texts[fold.path[col.home[id]]], file ? `${file}:${p.line}` : "", PHASES[col.phase[id]]].filter(Boolean).join(" · ")));
    }
    item.addEventListener("pointerdown", (event) => event.preventDefault());
    item.addEventListener("click", () => { choose(i); showHits(false); });
    list.append(item);
  });
  list.append(make("li", { class: "total", role: "presentation" }, total > hitIds.length ? `${hitIds.length} of ${total.toLocaleString("en")} hits` : plural(total, "hit")));
  showHits(true);
}
function showHits(on) {
  at("hits").hidden = !on;
  at("query").setAttribute("aria-expanded", String(on));
}
function choose(i) {
  if (!hitIds.length) return;
  current = (i + hitIds.length) % hitIds.length;
  at("hits").querySelectorAll('[role="option"]').forEach((item, k) => item.setAttribute("aria-selected", String(k === current)));
  const item = at(`hit${current}`);
  item.scrollIntoView({ block: "nearest" });
  at("query").setAttribute("aria-activedescendant", item.id);
  jump(hitIds[current]);
}

/* ---- events -------------------------------------------------------------------------------- */

const pointers = new Map();
let dragged = false, pressed = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "mouse" && event.button !== 0) return;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pointers.size === 1) {
    dragged = false;
    pressed = { x: event.clientX, y: event.clientY, target: event.target.closest("[data-id]") };
  } else dragged = true;
});
addEventListener("pointermove", (event) => {
  const old = pointers.get(event.pointerId);
  if (!old) return;
  const now = { x: event.clientX, y: event.clientY };
  if (pointers.size === 1) {
    if (!dragged && Math.hypot(now.x - pressed.x, now.y - pressed.y) < 5) return;
    dragged = true;
    canvas.classList.add("moving");
    state.x += now.x - old.x;
    state.y += now.y - old.y;
    move();
  } else if (pointers.size === 2) {
    const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
    const frame = canvas.getBoundingClientRect();
    const before = Math.hypot(old.x - other.x, old.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
    state.x += (now.x - old.x) / 2;
    state.y += (now.y - old.y) / 2;
    if (before > 0) zoom(after / before, (now.x + other.x) / 2 - frame.left, (now.y + other.y) / 2 - frame.top);
  }
  pointers.set(event.pointerId, now);
});
function lift(event) {
  if (!pointers.delete(event.pointerId)) return;
  canvas.classList.remove("moving");
  if (event.type === "pointerup" && !dragged && pressed) {
    if (pressed.target) activate(Number(pressed.target.dataset.id));
    else if (event.target.closest("#canvas")) { hidePanel(); canvas.focus({ preventScroll: true }); }
  }
  if (!pointers.size) pressed = null;
}
addEventListener("pointerup", lift);
addEventListener("pointercancel", lift);
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const frame = canvas.getBoundingClientRect();
  const lines = event.deltaMode === 1 ? 30 : 1;
  if (!event.ctrlKey && !event.metaKey) {
    const [x, y] = event.shiftKey ? [event.deltaY, event.deltaX] : [event.deltaX, event.deltaY];
    state.x -= x * lines;
    state.y -= y * lines;
    move();
    return;
  }
  zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) / 400), event.clientX - frame.left, event.clientY - frame.top);
}, { passive: false });

/* The next box in a direction, for the arrow keys. */
function neighbour(id, dx, dy) {
  const here = boxes.get(id);
  let best = null, least = Infinity;
  for (const b of boxes.values()) {
    if (b === here) continue;
    const x = b.x - here.x, y = b.y - here.y, along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 4) continue;
    const cost = along + 2 * aside;
    if (cost < least) { least = cost; best = b; }
  }
  return best;
}
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target, typing = target.closest("input, select");
  if (event.key === "Escape") {
    if (!at("hits").hidden) showHits(false);
    else hidePanel();
    if (typing) typing.blur();
    return;
  }
  if (typing) return;
  if (event.key === "/") { event.preventDefault(); at("query").focus(); at("query").select(); return; }
  const inStage = target.closest("#stage") || target === document.body;
  if (!inStage) return;
  const item = target.closest("[data-id]"), id = item ? Number(item.dataset.id) : null;
  if (event.key in ARROWS) {
    const [dx, dy] = ARROWS[event.key];
    event.preventDefault();
    const next = id !== null && !event.shiftKey && boxes.has(id) ? neighbour(id, dx, dy) : null;
    if (next) {
      at("world").querySelector(`.box[data-id="${next.id}"]`).focus({ preventScroll: true });
      keepInView(next);
    } else if (id === null || event.shiftKey) { state.x -= 60 * dx; state.y -= 60 * dy; move(); }
  } else if ((event.key === "Enter" || event.key === " ") && id !== null) {
    event.preventDefault();
    activate(id);
  } else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-" || event.key === "_") zoom(0.8);
  else if (event.key === "0") fit();
});
function keepInView(b) {
  const x = state.x + b.x * state.k, y = state.y + b.y * state.k, w = canvas.clientWidth, h = canvas.clientHeight;
  if (x < 60) state.x += 60 - x;
  if (x > w - 60) state.x -= x - w + 60;
  if (y < 60) state.y += 60 - y;
  if (y > h - 60) state.y -= y - h + 60;
  move();
}
at("world").addEventListener("focusin", (event) => {
  const item = event.target.closest(".box");
  if (item && item.matches(":focus-visible")) keepInView(boxes.get(Number(item.dataset.id)));
});
let waiting = 0;
at("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, N > 20000 ? 150 : 40); });
at("query").addEventListener("focus", () => { if (hitIds.length) showHits(true); });
at("query").addEventListener("blur", () => showHits(false));
at("query").addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    if (waiting) { clearTimeout(waiting); waiting = 0; }
    if (!hitIds.length) search();
    choose(current + (event.shiftKey ? -1 : 1));
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(current + (event.key === "ArrowDown" ? 1 : -1));
  }
});
at("more").addEventListener("click", () => { openLevel(); refresh(); start(); });
at("less").addEventListener("click", () => {
  for (const f of [...opened]) if (fold.parent[f] >= 0) opened.delete(f);
  refresh();
  start();
});
at("leaves").addEventListener("click", () => {
  state.leaves = !state.leaves;
  at("leaves").setAttribute("aria-pressed", String(state.leaves));
  refresh();
});
at("in").addEventListener("click", () => zoom(1.25));
at("out").addEventListener("click", () => zoom(0.8));
at("fit").addEventListener("click", fit);
const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
  const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  at("theme").textContent = now === "dark" ? "Light" : "Dark";
  return now;
}
at("theme").addEventListener("click", () => theme(theme() === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme());
at("colour").addEventListener("change", () => { state.colour = at("colour").value; render(); });
let wide = innerWidth;
addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; layout(); render(); start(); } });
addEventListener("hashchange", follow);
function follow() {
  const found = /^#(\d+)$/.exec(location.hash);
  if (found && Number(found[1]) < N) jump(Number(found[1]));
}

/* ---- start --------------------------------------------------------------------------------- */

document.querySelector("h1").textContent = data.title || "graph";
document.querySelector("h1").title = `${data.title}: ${plural(N, "op")}`;
for (const [value, name] of COLOURS) {
  const option = make("option", { value }, name);
  if (known[value] === false) option.disabled = true;
  at("colour").append(option);
}
theme();
layout();
render();
start();
if (!N) tell("The graph has no ops.");
follow();
})();
