/* Places of boxes in frames in frames: the layout of `layers.py`, `shelves.py` and `frames.py`. */
const graphLayout = (() => {
"use strict";

const ROWS = 34, NEIGHBOURS = 20, LANE = 8, STEP = 6, GUTTER = 14, TALL = 1000, SWEEPS = 6;
const IN_COLUMNS = 1.3, ON_SHELVES = 1.6, SHELF = 26, MOST_FANNED = 10, MOST_PORTS = 32;
const BETWEEN = 60, PADDING = 12, TITLE = 20, BACK = 12, NARROW = 560;
const lists = (n) => Array.from({ length: n }, () => []);
const sum = (items) => items.reduce((a, b) => a + b, 0);
const largest = (items, least = -Infinity) => items.reduce((a, b) => Math.max(a, b), least);
/* Rounds halves to even, as Python does. */
const round = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

/* ---- rows and columns: layers.py ------------------------------------------------------------ */

function withoutCircles(count, links) {
  const after = lists(count), state = new Uint8Array(count), kept = [], known = new Set();
  for (const [a, b] of links) after[a].push(b);
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    state[root] = 1;
    const stack = [[root, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1], item = top[0];
      let deeper = false;
      while (top[1] < after[item].length) {
        const end = after[item][top[1]++];
        if (state[end] === 1) continue;
        const key = item * count + end;
        if (!known.has(key)) { known.add(key); kept.push([item, end]); }
        if (state[end] === 0) { state[end] = 1; stack.push([end, 0]); deeper = true; break; }
      }
      if (!deeper) { state[item] = 2; stack.pop(); }
    }
  }
  return kept;
}
function rowsOf(count, links, first, last) {
  const before = lists(count), after = lists(count), depth = new Array(count).fill(0);
  for (const [a, b] of links) { before[b].push(a); after[a].push(b); }
  const waiting = before.map((x) => x.length), ready = [];
  for (let i = 0; i < count; i++) if (!waiting[i]) ready.push(i);
  for (let k = 0; k < ready.length; k++) {
    for (const end of after[ready[k]]) {
      depth[end] = Math.max(depth[end], depth[ready[k]] + 1);
      if (!--waiting[end]) ready.push(end);
    }
  }
  for (let i = 0; i < count; i++) {
    if (!before[i].length && after[i].length && !first.has(i)) depth[i] = Math.min(...after[i].map((x) => depth[x])) - 1;
  }
  if (first.size) {
    const down = depth.some((d, i) => d === 0 && !first.has(i)) ? 1 : 0;
    for (let i = 0; i < count; i++) depth[i] = first.has(i) ? 0 : depth[i] + down;
  }
  if (last.size) {
    let lowest = 0;
    const inner = depth.filter((d, i) => !last.has(i));
    if (inner.length) lowest = Math.max(...inner);
    for (const i of last) depth[i] = lowest + 1;
  }
  const rows = lists(largest(depth, -1) + 1);
  depth.forEach((d, i) => rows[d].push(i));
  return rows.filter((row) => row.length);
}
function gridOf(rows, sizes, links, most) {
  const widths = sizes.map((s) => s[0]), count = sizes.length;
  let grid = withLanes(splitRows(rows, sizes, most), links, widths);
  const lanes = largest(grid.order.map((row) => row.filter((i) => i >= count).length), 0);
  if (!lanes || largest(grid.order.map((row) => rowWidth(grid, row))) <= most) return grid;
  const lane = Math.min(LANE, Math.max(1, most / 3 / lanes)), rest = most - lanes * lane - 2 * NEIGHBOURS;
  grid = withLanes(splitRows(rows, sizes, rest), links, widths);
  grid.widths.fill(lane, count);
  return grid;
}
function splitRows(rows, sizes, most) {
  const split = [];
  for (const row of rows) {
    let x = 0;
    row.forEach((item, place) => {
      if (!place || x + sizes[item][0] > most) { split.push([]); x = 0; }
      split[split.length - 1].push(item);
      x += sizes[item][0] + (sizes[item][0] > LANE ? NEIGHBOURS : 0);
    });
  }
  return split;
}
function withLanes(rows, links, widths) {
  const grid = { order: rows.map((r) => [...r]), near: widths.map(() => [[], []]), widths: [...widths], lanes: new Map() };
  const rowOf = new Array(widths.length), ends = new Map();
  rows.forEach((row, r) => row.forEach((item) => { rowOf[item] = r; }));
  for (const [a, b] of links) { if (!ends.has(a)) ends.set(a, []); ends.get(a).push(b); }
  for (const [start, targets] of ends) {
    const chain = [];
    let before = start;
    for (let r = rowOf[start] + 1; r < largest(targets.map((x) => rowOf[x])); r++) {
      const lane = grid.near.length;
      grid.near.push([[before], []]);
      grid.widths.push(LANE);
      grid.near[before][1].push(lane);
      grid.order[r].push(lane);
      chain.push(lane);
      before = lane;
    }
    for (const end of targets) {
      const over = rowOf[end] - rowOf[start] - 2, above = over >= 0 ? chain[over] : start;
      grid.near[above][1].push(end);
      grid.near[end][0].push(above);
    }
    grid.lanes.set(start, chain);
  }
  return grid;
}
const gap = ({ widths }, a, b) => (widths[a] + widths[b]) / 2 + (Math.max(widths[a], widths[b]) > LANE ? NEIGHBOURS : 0);
function rowWidth(grid, row) {
  if (!row.length) return 0;
  let wide = 0;
  for (let k = 1; k < row.length; k++) wide += gap(grid, row[k - 1], row[k]);
  return wide + (grid.widths[row[0]] + grid.widths[row[row.length - 1]]) / 2;
}
function columnsOf(grid, heights, most) {
  const whole = sum(heights) + ROWS * (heights.length - 1);
  if (whole <= TALL || most === Infinity) return heights.map(() => 0);
  const widest = largest(grid.order.map((row) => rowWidth(grid, row))) + 2 * GUTTER + 4 * STEP;
  let number = Math.min(round(Math.sqrt(IN_COLUMNS * whole / widest)), Math.floor((most + NEIGHBOURS) / widest));
  number = Math.max(Math.min(number, Math.floor(whole / largest(heights)), heights.length), 1);
  const tall = whole / number, columns = [];
  let y = 0, column = 0;
  heights.forEach((height, r) => {
    if (number - 1 - column && columns.length && columns[columns.length - 1] === column && y > 0) {
      const crossing = grid.order[r - 1].filter((i) => grid.near[i][1].length).length;
      if (y + height > tall * 1.1 || (y > tall * 0.9 && crossing <= 1) || y + height / 2 > tall) { column++; y = 0; }
    }
    columns.push(column);
    y += height + ROWS;
  });
  return columns;
}
function sortRows(grid, fromAbove) {
  const place = new Array(grid.near.length).fill(0), side = fromAbove ? 0 : 1;
  for (const row of grid.order) row.forEach((item, k) => { place[item] = k; });
  for (const row of fromAbove ? grid.order : [...grid.order].reverse()) {
    const means = new Map();
    for (const item of row) {
      const near = grid.near[item][side];
      means.set(item, near.length ? sum(near.map((i) => place[i])) / near.length : place[item]);
    }
    row.sort((a, b) => means.get(a) - means.get(b));
    row.forEach((item, k) => { place[item] = k; });
  }
}
function centresOf(grid, most) {
  const total = grid.near.length, centres = new Array(total).fill(0), columnOf = new Array(total).fill(0);
  const limits = [], offsets = [];
  grid.order.forEach((row, r) => {
    let x = 0;
    const own = [0], column = grid.columns[r];
    for (let k = 1; k < row.length; k++) { x += gap(grid, row[k - 1], row[k]); own.push(x); }
    offsets.push(own);
    limits[column] = Math.max(limits[column] || 0, rowWidth(grid, row));
    row.forEach((item, k) => { centres[item] = own[k] - x / 2; columnOf[item] = column; });
  });
  const near = grid.near.map((sides, item) => sides.map((side) => side.filter((i) => columnOf[i] === columnOf[item])));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const side = sweep % 2;
    for (let k = 0; k < grid.order.length; k++) {
      const r = side ? grid.order.length - 1 - k : k, row = grid.order[r], limit = limits[grid.columns[r]];
      const wanted = row.map((item) => {
        const items = near[item][side];
        return items.length ? sum(items.map((i) => centres[i])) / items.length : centres[item];
      });
      const room = Math.max(limit, limits.length > 1 ? 0 : Math.min(most, 2 * limit));
      placeRow(row, wanted, offsets[r], centres, grid.widths, room);
    }
  }
  return centres;
}
function placeRow(row, wanted, offsets, centres, widths, room) {
  const blocks = [];
  row.forEach((_, place) => {
    let mean = wanted[place] - offsets[place], count = 1;
    while (blocks.length && blocks[blocks.length - 1][0] > mean) {
      const [other, others] = blocks.pop();
      mean = (mean * count + other * others) / (count + others);
      count += others;
    }
    blocks.push([mean, count]);
  });
  const left = widths[row[0]] / 2 - room / 2;
  const right = Math.max(left, room / 2 - offsets[row.length - 1] - widths[row[row.length - 1]] / 2);
  let place = 0;
  for (const [mean, count] of blocks) {
    for (let k = 0; k < count; k++, place++) centres[row[place]] = Math.min(Math.max(mean, left), right) + offsets[place];
  }
}
function layersOf(sizes, links, most, first, last) {
  const down = withoutCircles(sizes.length, links);
  const grid = gridOf(rowsOf(sizes.length, down, first, last), sizes, down, most);
  const heights = grid.order.map((row) => largest(row.map((i) => (i < sizes.length ? sizes[i][1] : 0)), 0));
  grid.columns = columnsOf(grid, heights, most);
  for (let sweep = 0; sweep < SWEEPS; sweep++) sortRows(grid, sweep % 2 === 0);
  const done = placed(grid, sizes, down, heights, centresOf(grid, most));
  const kept = new Set(down.map(([a, b]) => `${a} ${b}`));
  done.back = links.filter(([a, b]) => !kept.has(`${a} ${b}`));
  return done;
}
function crossings(grid) {
  const sourceOf = new Map(), found = [];
  for (const [start, lanes] of grid.lanes) for (const lane of lanes) sourceOf.set(lane, start);
  for (let r = 1; r < grid.columns.length; r++) {
    if (grid.columns[r - 1] === grid.columns[r]) continue;
    const over = grid.order[r - 1].filter((i) => grid.near[i][1].length);
    found.push(over.map((i) => (sourceOf.has(i) ? sourceOf.get(i) : i)));
  }
  return found;
}
function placed(grid, sizes, down, heights, x) {
  const crossing = crossings(grid);
  let above = largest(crossing.map((items) => items.length), 0) * STEP;
  above += above ? GUTTER : 0;
  const shifts = [], tops = new Array(grid.order.length).fill(0), ends = [];
  const columns = grid.columns.length ? grid.columns[grid.columns.length - 1] + 1 : 0;
  let left = 0, lowest = 0;
  for (let column = 0; column < columns; column++) {
    let least = Infinity, most = -Infinity, y = column ? above : 0, before = -1;
    grid.order.forEach((row, r) => {
      if (grid.columns[r] !== column) return;
      for (const i of row) { least = Math.min(least, x[i] - grid.widths[i] / 2); most = Math.max(most, x[i] + grid.widths[i] / 2); }
      if (before >= 0) y += heights[before] + (Math.min(heights[before], heights[r]) <= 1 ? ROWS / 2 : ROWS);
      tops[r] = y;
      before = r;
    });
    const bottom = y + heights[before];
    shifts.push(left - least);
    ends.push([left + most - least, bottom]);
    const lanes = column < crossing.length ? crossing[column].length : 0;
    lowest = Math.max(lowest, bottom + (lanes ? GUTTER + STEP * lanes : 0));
    left += most - least + (lanes ? 2 * GUTTER + STEP * lanes : NEIGHBOURS);
  }
  const rowOf = new Array(grid.near.length).fill(0);
  grid.order.forEach((row, r) => row.forEach((i) => { rowOf[i] = r; x[i] += shifts[grid.columns[r]]; }));
  const corners = [], spans = [];
  sizes.forEach(([width, height], i) => {
    const top = tops[rowOf[i]], tall = heights[rowOf[i]];
    corners.push([x[i] - width / 2, top + (tall - height) / 2]);
    spans.push([top, top + tall]);
  });
  const routes = down.map(([start, end]) => {
    const points = [];
    let before = start;
    for (const i of [...grid.lanes.get(start).slice(0, Math.max(rowOf[end] - rowOf[start] - 1, 0)), end]) {
      const r = rowOf[i], column = grid.columns[r];
      if (column !== grid.columns[r - 1]) {
        const [right, bottom] = ends[column - 1], place = crossing[column - 1].indexOf(start);
        const aside = right + GUTTER + STEP * place, under = bottom + GUTTER + STEP * place, over = GUTTER / 2 + STEP * place;
        points.push([x[before], under], [aside, under], [aside, over], [x[i], over]);
      }
      if (i !== end) points.push([x[i], tops[r]], [x[i], tops[r] + heights[r]]);
      before = i;
    }
    return [start, end, points];
  });
  return { corners, spans, routes, width: largest(ends.map((e) => e[0]), 0), height: Math.max(lowest, 0), back: [] };
}

/* ---- groups on shelves: shelves.py ---------------------------------------------------------- */

function groupsOf(count, links) {
  const fans = new Array(count).fill(0), leader = Array.from({ length: count }, (_, i) => i), groups = new Map();
  for (const [a] of links) fans[a]++;
  const lead = (i) => {
    while (leader[i] !== i) { leader[i] = leader[leader[i]]; i = leader[i]; }
    return i;
  };
  for (const [start, end] of links) {
    if (fans[start] > MOST_FANNED) continue;
    const a = lead(start), b = lead(end);
    leader[Math.max(a, b)] = Math.min(a, b);
  }
  for (let i = 0; i < count; i++) {
    if (!groups.has(lead(i))) groups.set(lead(i), []);
    groups.get(lead(i)).push(i);
  }
  return [...groups.values()];
}
function shelves(sizes, most, wanted) {
  if (sizes.length === 1) return { places: [[0, 0]], width: sizes[0][0], height: sizes[0][1] };
  const area = sum(sizes.map(([w, h]) => (w + SHELF) * (h + SHELF)));
  const wide = Math.max(largest(sizes.map((s) => s[0]), 0), Math.min(most, Math.sqrt(ON_SHELVES * area)));
  const places = sizes.map(() => [0, 0]);
  let x = 0, top = 0, shelf = 0, under = 0, column = 0, width = 0, first = wanted.size > 0;
  const order = sizes.map((_, i) => i);
  order.sort((a, b) => wanted.has(b) - wanted.has(a) || sizes[b][1] - sizes[a][1]);
  for (const i of order) {
    const [w, h] = sizes[i];
    if (first && !wanted.has(i)) { first = false; x = 0; top += shelf + SHELF; column = 0; shelf = 0; }
    if (column && under + h <= top + shelf && w <= column) {
      places[i] = [x, under];
      under += h + SHELF;
      continue;
    }
    x += column ? column + SHELF : 0;
    if (x && x + w > wide) { x = 0; top += shelf + SHELF; shelf = 0; }
    places[i] = [x, top];
    column = w; under = top + h + SHELF; shelf = Math.max(shelf, h);
    width = Math.max(width, x + w);
  }
  return { places, width, height: top + shelf };
}
/* sizes: [width, height] of each item; links: [from, to]; first, last: sets of items. */
function layered(sizes, links, upward, most, first, last) {
  const groups = groupsOf(sizes.length, links), groupOf = [], numbers = [], own = lists(groups.length);
  groups.forEach((group, g) => group.forEach((item, k) => { groupOf[item] = g; numbers[item] = k; }));
  const wanted = new Set();
  for (const [a, b] of links) {
    if (groupOf[a] === groupOf[b]) own[groupOf[a]].push([numbers[a], numbers[b]]);
    else wanted.add(groupOf[a]);
  }
  for (const [a, b] of links) if (groupOf[a] !== groupOf[b]) wanted.delete(groupOf[b]);
  const pieces = groups.map((group, g) => {
    const inner = (chosen) => new Set(group.filter((i) => chosen.has(i)).map((i) => numbers[i]));
    return layersOf(group.map((i) => sizes[i]), own[g], most, inner(first), inner(last));
  });
  const { places, width, height } = shelves(pieces.map((p) => [p.width, p.height]), most, wanted);
  const whole = { corners: [], spans: [], routes: [], back: [], width, height };
  groups.forEach((group, g) => {
    const [x, y] = places[g], piece = pieces[g];
    group.forEach((item, k) => {
      whole.corners[item] = [x + piece.corners[k][0], y + piece.corners[k][1]];
      whole.spans[item] = piece.spans[k].map((v) => y + v);
    });
    for (const [a, b] of piece.back) whole.back.push([group[a], group[b]]);
    for (const [a, b, points] of piece.routes) whole.routes.push([group[a], group[b], points.map(([u, v]) => [x + u, y + v])]);
  });
  if (upward) {
    whole.corners = whole.corners.map(([x, y], i) => [x, height - y - sizes[i][1]]);
    whole.spans = whole.spans.map(([a, b]) => [height - a, height - b]);
    for (const route of whole.routes) route[2] = route[2].map(([x, y]) => [x, height - y]);
  }
  return whole;
}

/* ---- frames in frames: frames.py ------------------------------------------------------------ */

/* A picture: {number, width, height, inner}; an open one has `isOpen` and the width of its `title`. */
function around(picture) {
  const chain = [picture];
  while (chain[chain.length - 1].parent) chain.push(chain[chain.length - 1].parent);
  return chain;
}
const nameOf = (item) => (typeof item === "string" ? item : item.number);
const pair = (a, b) => `${nameOf(a)} ${nameOf(b)}`;
function enter(frame, a, b, turns) {
  const known = frame.links.get(pair(a, b));
  if (known) known.turns = known.turns && turns;
  else frame.links.set(pair(a, b), { a, b, turns });
}
function linked(start, end, turns) {
  const above = around(start), under = around(end);
  let frame = null;
  while (above.length && under.length && above[above.length - 1] === under[under.length - 1]) {
    frame = above.pop();
    under.pop();
  }
  for (let k = 1; k < above.length; k++) enter(above[k], above[k - 1], `out${start.number}`, false);
  for (let k = 1; k < under.length; k++) enter(under[k], `in${start.number}`, under[k - 1], false);
  enter(frame, above[above.length - 1], under[under.length - 1], turns);
  return { above, under };
}
function arrange(frame, most) {
  for (const picture of frame.inner) {
    if (!picture.isOpen) continue;
    picture.upward = frame.upward;
    arrange(picture, Math.max(most - 2 * PADDING, 0));
  }
  const fans = new Map(), ports = new Set();
  for (const { a, b } of frame.links.values()) {
    fans.set(a, (fans.get(a) || 0) + 1);
    for (const x of [a, b]) if (typeof x === "string") ports.add(x);
  }
  const items = [...frame.inner, ...[...ports].filter((p) => p.startsWith("out") || fans.get(p) <= MOST_FANNED)
    .slice(0, MOST_PORTS)];
  const places = new Map(items.map((item, k) => [item, k])), links = [], turning = [], first = new Set(), last = new Set();
  for (const { a, b, turns } of frame.links.values()) {
    if (places.has(a) && places.has(b)) (turns ? turning : links).push([places.get(a), places.get(b)]);
  }
  items.forEach((item, k) => { if (typeof item === "string") (item.startsWith("in") ? first : last).add(k); });
  const sizes = items.map((x) => (typeof x === "string" ? [LANE, 1] : [x.width, x.height]));
  const done = layered(sizes, links, frame.upward, most - 2 * PADDING, first, last);
  done.back.push(...turning);
  done.back.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  const left = PADDING, top = TITLE + PADDING / 2;
  frame.spans = new Map();
  frame.ports = new Map();
  items.forEach((item, k) => {
    const [x, y] = done.corners[k];
    frame.spans.set(nameOf(item), done.spans[k].map((v) => v + top));
    if (typeof item === "string") frame.ports.set(item, x + left + LANE / 2);
    else { item.x = x + left; item.y = y + top; }
  });
  frame.lanes = new Map(done.routes.map(([a, b, points]) =>
    [pair(items[a], items[b]), points.map(([x, y]) => [x + left, y + top])]));
  frame.back = new Map(done.back.map(([a, b], k) => [pair(items[a], items[b]), left + done.width + BACK * (k + 0.6)]));
  frame.width = Math.max(done.width + BACK * done.back.length, frame.title || 0) + 2 * PADDING;
  frame.height = done.height + TITLE + 1.5 * PADDING;
}
function move(picture, x, y) {
  picture.x += x;
  picture.y += y;
  if (!picture.isOpen) return;
  ({ x, y } = picture);
  for (const span of picture.spans.values()) { span[0] += y; span[1] += y; }
  for (const [port, at] of picture.ports) picture.ports.set(port, x + at);
  for (const points of picture.lanes.values()) for (const p of points) { p[0] += x; p[1] += y; }
  for (const [key, at] of picture.back) picture.back.set(key, x + at);
  for (const inner of picture.inner) move(inner, x, y);
}
function rim(picture, leaves) {
  const below = leaves !== (picture.parent || picture).upward;
  return [picture.x + picture.width / 2, picture.y + (below ? picture.height : 0)];
}
function go(way, frame, a, b) {
  const source = way.start.number;
  const xOf = (item, kind) => {
    if (typeof item === "string") return frame.ports.get(item);
    const port = `${kind}${source}`;
    return item.isOpen && item.ports.has(port) ? item.ports.get(port) : item.x + item.width / 2;
  };
  const from = frame.spans.get(nameOf(a)), to = frame.spans.get(nameOf(b)), key = pair(a, b);
  if (!from || !to || !(frame.back.has(key) || frame.lanes.has(key))) { way.kind = way.kind || "loose"; return; }
  const here = [xOf(a, "out"), from[1]], there = [xOf(b, "in"), to[0]];
  for (const [item, y] of [[a, here[1]], [b, there[1]]]) {
    if (typeof item !== "string") continue;
    if (Math.min(y - frame.y, frame.y + frame.height - y) >= TITLE + PADDING) way.kind = way.kind || "loose";
  }
  if (frame.back.has(key)) {
    const aside = frame.back.get(key), step = frame.upward ? -8 : 8, under = here[1] + step, over = there[1] - step;
    way.kind = "back";
    way.points.push(here, [here[0], under], [aside, under], [aside, over], [there[0], over]);
  } else way.points.push(here, ...frame.lanes.get(key));
  way.points.push(there);
}
function wayOf(start, end, { above, under }) {
  const way = { start, end, points: [rim(start, true)], kind: "" };
  for (let k = 1; k < above.length; k++) go(way, above[k], above[k - 1], `out${start.number}`);
  go(way, above[above.length - 1].parent, above[above.length - 1], under[under.length - 1]);
  for (let k = under.length - 1; k > 0; k--) go(way, under[k], `in${start.number}`, under[k - 1]);
  way.points.push(rim(end, false));
  return way;
}
/* columns: pictures of the phases, whose `phase` is a word; links: {start, end, turns} of pictures.
   Sets x, y, width and height of all pictures; returns the ways of the links, and the size. */
function arranged(columns, links, wide) {
  const prepare = (picture) => {
    picture.links = new Map();
    for (const inner of picture.inner) { inner.parent = picture; prepare(inner); }
  };
  columns.forEach(prepare);
  const meetings = links.map(({ start, end, turns }) => linked(start, end, turns));
  const half = (wide - BETWEEN) / 2, room = columns.length > 1 && half >= NARROW ? half : wide;
  let x = 0, y = 0, shelf = 0, width = 0;
  for (const column of columns) {
    column.upward = column.phase === "backward";
    arrange(column, room);
    if (x && x + column.width > wide) { x = 0; y += shelf + BETWEEN; shelf = 0; }
    if (!x && column.upward) { column.upward = false; arrange(column, room); }
    column.x = x;
    column.y = y;
    x += column.width + BETWEEN;
    shelf = Math.max(shelf, column.height);
    width = Math.max(width, x - BETWEEN);
  }
  for (const column of columns) move(column, 0, 0);
  return { ways: links.map(({ start, end }, k) => wayOf(start, end, meetings[k])), width, height: y + shelf };
}
return { layered, arranged };
})();
if (typeof module !== "undefined") module.exports = graphLayout;
