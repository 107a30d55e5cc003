// Draws the plots of a page with uPlot, which is a global name; fcnet_core/document/plots.py writes what they show.
// Plots of a group share their x range, the cursor, and the time that is marked.

const MARGIN = 62; // [px] for the y axis, the same in all plots, so that their x axes lie below each other
const FEW = 60; // points of a line, each of which is drawn
const PAPER = 700; // [px] width of A4 without its margins
const UPPER = 0.6; // of the height, for the lines of the left axis where there are lines of the right one below them
const TINY = 1e-12; // below it nothing is drawn on a logarithmic axis

// The arrays of PackedArrays, by their numbers; NaN stands for what is not known.
export async function unpack({ index, packed }) {
  const compressed = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  let place = 0;
  return index.map(({ count, low, step }) => {
    const begin = place;
    place += (step ? 2 : 4) * count;
    if (!step) return new Float32Array(bytes.slice(begin, place));
    const high = new Uint8Array(bytes, begin, count), rest = new Uint8Array(bytes, begin + count, count);
    const values = new Float32Array(count);
    for (let k = 0, whole = 0; k < count; k++) {
      whole = (whole + high[k] * 256 + rest[k]) & 0xffff;
      values[k] = whole === 0xffff ? NaN : low + whole * step;
    }
    return values;
  });
}

export const gridValues = ({ start, step, count }) => Float64Array.from({ length: count }, (_, k) => start + step * k);

// All plots of a page, in its elements with data-plot.
export class Plots {
  constructor(specs, arrays) {
    this.panels = [...document.querySelectorAll("[data-plot]")].map((element) => new Panel(element, specs[element.dataset.plot], arrays, this));
    this.onPick = () => {}; // (group, x) where somebody clicks into a plot
    const seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.panels.find(({ element }) => element === target).see(isIntersecting);
    }, { rootMargin: "300px" });
    for (const { element } of this.panels) seen.observe(element);
    new ResizeObserver(() => this.panels.forEach((panel) => panel.fit())).observe(document.querySelector("main"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.panels.forEach((panel) => panel.restyle()));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  // The part of the x axis that a group shows; null: all of it.
  range(group, range) {
    for (const panel of this.panels) if (group && panel.spec.group === group) panel.show(range);
  }

  shown(group) {
    const panel = this.panels.find(({ spec }) => spec.group === group);
    return panel ? panel.range || panel.whole : [0, 1];
  }

  zoom(group, factor, shift = 0) {
    const panel = this.panels.find(({ spec }) => spec.group === group);
    if (!panel) return;
    const [low, high] = this.shown(group), [first, last] = panel.whole;
    const half = Math.min((high - low) * factor, last - first) / 2;
    const middle = Math.min(last - half, Math.max(first + half, (low + high) / 2 + shift * (high - low)));
    this.range(group, half * 2 >= (last - first) * 0.999 ? null : [middle - half, middle + half]);
  }

  // Mark a place of the x axis in all plots of a group.
  mark(group, x) {
    for (const panel of this.panels) if (panel.spec.group === group) panel.mark(x);
  }

  // On paper every plot is drawn, as wide as the page, in the colours of the light scheme.
  print(begins) {
    document.documentElement.classList.toggle("paper", begins);
    for (const panel of this.panels) {
      panel.width = begins ? PAPER : 0;
      panel.see(begins || panel.near, true);
      panel.restyle();
    }
  }
}

class Panel {
  constructor(element, spec, arrays, plots) {
    Object.assign(this, { element, spec, plots, near: false, range: null, marked: null, width: 0, plot: null });
    this.x = typeof spec.x === "number" ? arrays[spec.x] : gridValues(spec.x);
    this.values = spec.lines.map(({ values }) => arrays[values]);
    this.whole = [this.x[0], this.x[this.x.length - 1]];
    this.caption = element.appendChild(document.createElement("figcaption"));
    this.title = add(this.caption, "strong", spec.title + (spec.unit ? ` [${spec.unit}]` : ""));
    this.at = add(this.caption, "span", "");
    this.at.className = "at";
    this.labels = new Map();
    for (const { label, colour, right } of [...spec.lines, ...spec.bars]) {
      if (this.labels.has(label)) continue;
      const name = add(this.caption, "span", "");
      const swatch = add(name, "i", "");
      swatch.className = `c${colour}`;
      add(name, "span", right ? `${label} [${spec.unit_right}]` : label);
      this.labels.set(label, add(name, "output", ""));
    }
    this.place = element.appendChild(document.createElement("div"));
    this.place.className = "canvas";
  }

  // Draw it where it comes near the window; hidden plots are neither drawn nor zoomed.
  see(near, forPrint = false) {
    if (!forPrint) this.near = near;
    if (!near) return;
    if (!this.plot) this.plot = new uPlot(this.options(), this.data(), this.place);
    this.apply();
  }

  fit() {
    if (!this.plot || this.width) return;
    const width = this.place.clientWidth;
    if (width > 0 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: this.spec.height });
  }

  restyle() {
    palette.clear();
    if (!this.plot) return;
    const columns = this.element.parentElement.classList.contains("columns") ? 2 : 1;
    const width = this.width ? (this.width - 16 * (columns - 1)) / columns : this.place.clientWidth;
    if (width > 0) this.plot.setSize({ width, height: this.spec.height });
    this.plot.redraw(false, true);
  }

  show(range) {
    this.range = range;
    if (this.near) this.apply();
  }

  apply() {
    if (!this.plot) return;
    const [min, max] = this.range || this.whole, now = this.plot.scales.x;
    if (this.spec.scale !== "path" && (now.min !== min || now.max !== max)) {
      this.applying = true;
      this.plot.batch(() => this.plot.setScale("x", { min, max }));
      this.applying = false;
    }
    this.mark(this.marked);
  }

  mark(x) {
    this.marked = x;
    if (!this.plot || x === null || !(this.near || this.width)) return;
    if (this.spec.scale === "path") {
      this.plot.redraw(false, false);
      return;
    }
    const place = this.plot.valToPos(x, "x"), inside = place >= 0 && place <= this.plot.over.clientWidth;
    this.now.style.display = inside ? "" : "none";
    this.now.style.transform = `translateX(${place}px)`;
  }

  data() {
    if (this.spec.scale === "path") return [null, ...this.values.map((y) => [this.x, y])];
    const listed = (values) => Array.from(values, (value) => (Number.isNaN(value) ? null : value));
    const positive = (values) => listed(values).map((value) => (value > TINY ? value : null));
    const lines = this.values.map(this.spec.scale === "logarithmic" ? positive : listed);
    return this.spec.bars.length ? [this.whole, [null, null]] : [this.x, ...lines];
  }

  options() {
    const { spec } = this, path = spec.scale === "path", bars = spec.bars.length > 0, right = spec.lines.some((line) => line.right);
    const axis = { stroke: () => colour("soft"), grid: { stroke: () => colour("rule"), width: 1 }, ticks: { stroke: () => colour("rule"), width: 1, size: 4 }, font: "11px system-ui, sans-serif" };
    const series = spec.lines.map((line) => ({
      label: line.label, scale: line.right ? "right" : "y", stroke: () => colour(`c${line.colour}`), width: 1.3,
      points: { show: this.values.every((values) => values.length < FEW) }, ...(path ? { facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }], paths: wayPath } : {}),
    }));
    const limits = spec.limits.map(([, value]) => value);
    const scales = {
      x: path ? { time: false, range: (u, low, high) => this.square(u, "x", low, high) } : { time: false, range: (u, low, high) => (low === null ? this.whole : [low, high]) },
      y: bars ? { range: [0, spec.rows.length] }
        : path ? { range: (u, low, high) => this.square(u, "y", low, high) }
        : spec.scale === "logarithmic" ? { distr: 3 }
        : { range: (u, low, high) => (right ? above : (range) => range)(roomy(low, high, limits, spec.zero)) },
      right: { range: (u, low, high) => below(roomy(low, high, [], false)) },
    };
    const rows = bars ? {
      splits: () => spec.rows.map((_, row) => spec.rows.length - row - 0.5),
      values: () => spec.rows, grid: { show: false }, ticks: { show: false },
    } : {};
    return {
      width: this.place.clientWidth || PAPER, height: spec.height, mode: path ? 2 : 1, scales,
      series: [path ? null : {}, ...(bars ? [{ points: { show: false } }] : series)],
      axes: [
        { ...axis, ...(bars ? { grid: { show: false } } : {}), label: spec.x_label, labelSize: 16, labelFont: "11px system-ui, sans-serif", size: 24 },
        { ...axis, size: MARGIN, space: 24, values: labels, ...rows, ...(spec.scale === "logarithmic" ? decades(axis) : {}), ...(right ? { filter: (u, splits) => within(splits, u.scales.y, 1 - UPPER, 1) } : {}) },
        ...(right ? [{ ...axis, scale: "right", side: 1, size: 46, space: 20, grid: { show: false }, filter: (u, splits) => within(splits, u.scales.right, 0, 1 - UPPER) }] : []),
      ],
      padding: [6, right ? 0 : 14, 0, 0],
      legend: { show: false },
      cursor: {
        y: false, points: bars || path ? { show: false } : { size: 5 }, drag: { x: true, y: path, setScale: true },
        sync: spec.group && !path ? { key: spec.group, setSeries: false, scales: ["x", null] } : undefined,
      },
      hooks: {
        setScale: [(u, key) => key === "x" && this.zoomed(u)],
        setCursor: [(u) => this.read(u)],
        draw: [(u) => this.decorate(u)],
        drawClear: bars ? [(u) => this.drawBars(u)] : [],
        init: [(u) => this.listen(u)],
      },
    };
  }

  listen(u) {
    this.now = add(u.over, "div", "");
    this.now.className = "now";
    this.now.style.display = "none";
    let down = null;
    u.over.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; });
    u.over.addEventListener("click", (event) => {
      if (!down || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 4 || this.spec.scale === "path") return;
      this.plots.onPick(this.spec.group, u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x"));
    });
  }

  // A zoom by hand is taken to the whole group.
  zoomed(u) {
    if (this.applying || this.spec.scale === "path" || u.scales.x.min === null) return;
    const { min, max } = u.scales.x, [first, last] = this.whole;
    const range = min <= first && max >= last ? null : [Math.max(min, first), Math.min(max, last)];
    const [low, high] = this.range || this.whole;
    if (min === low && max === high) return;
    if (this.spec.group) this.plots.range(this.spec.group, range);
    else this.range = range;
  }

  // The values at the cursor.
  read(u) {
    const { idx, left } = u.cursor, inside = left >= 0 && this.spec.scale !== "path";
    this.at.textContent = inside ? `${number(u.posToVal(left, "x"))} ${this.spec.x_label.match(/\[(.*)\]/)?.[1] || ""}` : "";
    this.spec.lines.forEach(({ label }, k) => {
      const value = inside && idx !== null && idx !== undefined ? u.data[k + 1][idx] : null;
      this.labels.get(label).textContent = typeof value === "number" ? number(value) : "";
    });
  }

  // Limits, and in a path where it begins and where it is at the marked time.
  decorate(u) {
    const context = u.ctx, ratio = devicePixelRatio;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    for (const [label, value] of this.spec.limits) {
      const y = u.valToPos(value, "y", true);
      context.strokeStyle = context.fillStyle = colour("bad");
      context.lineWidth = ratio;
      context.setLineDash([5 * ratio, 4 * ratio]);
      strokeLine(context, u.bbox.left, y, u.bbox.left + u.bbox.width, y);
      context.setLineDash([]);
      context.font = `${11 * ratio}px system-ui, sans-serif`;
      context.textAlign = "right";
      context.fillText(label, u.bbox.left + u.bbox.width - 4 * ratio, y + (value < 0 ? -4 : 13) * ratio);
    }
    if (this.spec.scale === "path") {
      const first = this.values[0].findIndex((value, k) => !Number.isNaN(value) && !Number.isNaN(this.x[k]));
      if (first >= 0) this.spot(u, first, colour("c3"));
      if (this.marked !== null && this.spec.group) this.spot(u, this.rowAt(this.marked), colour("c2"));
    }
    context.restore();
    if (this.spec.scale !== "path") this.mark(this.marked);
  }

  // Rows of a path are evenly spaced over the time of the other plots of its group.
  rowAt(time) {
    const other = this.plots.panels.find(({ spec }) => spec.group === this.spec.group && spec.scale !== "path");
    if (!other) return 0;
    const [first, last] = other.whole;
    return Math.round(Math.min(1, Math.max(0, (time - first) / (last - first))) * (this.x.length - 1));
  }

  spot(u, row, fill) {
    const x = u.valToPos(this.x[row], "x", true), y = u.valToPos(this.values[0][row], "y", true);
    u.ctx.fillStyle = fill;
    u.ctx.beginPath();
    u.ctx.arc(x, y, 5 * devicePixelRatio, 0, 7);
    u.ctx.fill();
  }

  drawBars(u) {
    const height = u.bbox.height / this.spec.rows.length;
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    u.ctx.clip();
    for (const { spans, row, colour: number } of this.spec.bars) {
      u.ctx.fillStyle = colour(`c${number}`);
      for (const [begin, end] of spans) {
        const [left, right] = [begin, end].map((value) => u.valToPos(value, "x", true));
        u.ctx.fillRect(left, u.bbox.top + (row + 0.16) * height, Math.max(right - left, 1), 0.68 * height);
      }
    }
    u.ctx.restore();
  }

  // A range of a path's axis such that a metre is as long in x as in y.
  square(u, axis, low, high) {
    const [first, last] = extent(axis === "x" ? [this.x] : this.values), whole = low === null || (low <= first && high >= last);
    if (!whole) return [low, high];
    const [other] = [extent(axis === "x" ? this.values : [this.x])];
    const size = { x: u.bbox.width || u.width, y: u.bbox.height || u.height };
    const across = axis === "x" ? "y" : "x";
    const scale = Math.max((last - first) / size[axis], (other[1] - other[0]) / size[across], 0.2 / size[axis]) * 1.12;
    const middle = (first + last) / 2, half = (scale * size[axis]) / 2;
    return [middle - half, middle + half];
  }
}

// The way of a path plot through its places.
function wayPath(u, number) {
  const [x, y] = u.data[number], way = new Path2D();
  let pen = false;
  for (let k = 0; k < x.length; k++) {
    if (Number.isNaN(x[k]) || Number.isNaN(y[k])) { pen = false; continue; }
    way[pen ? "lineTo" : "moveTo"](u.valToPos(x[k], "x", true), u.valToPos(y[k], "y", true));
    pen = true;
  }
  const clip = new Path2D();
  clip.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  return { stroke: way, fill: null, clip, flags: 1 };
}

// A range with room around the values and the limits that are near them.
function roomy(low, high, limits, zero) {
  if (low === null || low === undefined) return [0, 1];
  const width = high - low || Math.abs(high) || 1;
  for (const limit of limits) {
    if (limit >= low - 2 * width && limit <= high + 2 * width) [low, high] = [Math.min(low, limit), Math.max(high, limit)];
  }
  const room = 0.06 * (high - low || Math.abs(high) || 1);
  return [zero ? Math.min(0, low) : low - room, high + room];
}

// The same range in the upper part of a plot, and in the lower one.
const above = ([low, high]) => [high - (high - low) / UPPER, high];
const below = ([low, high]) => [low, low + (high - low) / (1 - UPPER)];

// Labels of an axis, as short as the distance between them allows.
const labels = (u, splits, axis, space, step) => splits.map((value) => {
  if (value === null) return "";
  const least = u.scales.y.distr === 3 ? Math.abs(value) : step;
  const text = value === 0 || least >= 1e-3 ? Number(value.toPrecision(9)).toLocaleString("en", { maximumFractionDigits: 3 }) : value.toExponential(least === step ? 1 : 0);
  return text.replaceAll("-", "−");
});

// An axis of powers of ten: a label and a line for each.
const decades = (axis) => {
  const whole = (value) => value !== null && Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
  const filter = (u, splits) => splits.map((value) => (whole(value) ? value : null));
  return { filter, grid: { ...axis.grid, filter } };
};

// Ticks without those outside a part of the axis.
const within = (splits, { min, max }, from, to) =>
  splits.map((value) => (value >= min + (from - 0.01) * (max - min) && value <= min + (to + 0.01) * (max - min) ? value : null));

function extent(arrays) {
  let low = Infinity, high = -Infinity;
  for (const values of arrays) for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

const palette = new Map();
function colour(name) {
  if (!palette.has(name)) palette.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return palette.get(name);
}

function add(parent, tag, content) {
  const made = document.createElement(tag);
  made.textContent = content;
  return parent.appendChild(made);
}

function strokeLine(context, x, y, toX, toY) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

export function number(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace(".0e", "e").replaceAll("-", "−");
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : 1).replace("-", "−");
}
