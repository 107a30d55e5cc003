// Plots of the last seconds: panels with one time axis on one canvas. A pointer over it reads the values of that time.
import { POSE, VELOCITY } from "./driver.js";
import { sized } from "./canvas.js";

const SPAN = 10; // [s]
const LEFT = 40, RIGHT = 6, TITLE = 16, AXIS = 16; // [px] around and below the panels
const NARROW = 560, WIDE_PANEL = 280, NARROW_PANEL = 130; // [px] half the columns below; every 2 s and the unit labelled from; no values below
const TICKS = { most: 5, height: 13 }; // of a vertical axis: how many, and pixels for each
const ROW = 62, BAR_ROW = 30; // [px] least height of a panel

export class Plots {
  // sets: by name {label, columns, panels}; a panel: {title, unit, low, high, measured, commanded}, where the last two are
  // functions of a snapshot that return a number or null; values outside widen the panel. bar: measured is 0 or 1.
  // read: gets the time [s] that the pointer shows, or null.
  constructor(canvas, sets, read) {
    this.canvas = canvas;
    this.sets = sets;
    this.read = read;
    this.snapshots = [];
    this.frozen = null;
    this.pointer = null; // [px] from the left
    this.show(Object.keys(sets)[0]);
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    canvas.addEventListener("pointerdown", (event) => this.point(event.offsetX));
    canvas.addEventListener("pointerleave", () => this.point(null));
  }

  show(name) {
    this.set = this.sets[name];
    this.fit();
    this.draw();
  }

  // Reserve the least height; call it when the width has changed.
  fit() {
    const bars = this.set.panels[0].bar;
    this.canvas.style.minHeight = `${Math.ceil(this.set.panels.length / this.columns()) * (bars ? BAR_ROW : ROW) + AXIS}px`;
  }

  columns() {
    return this.canvas.clientWidth < NARROW ? Math.ceil(this.set.columns / 2) : this.set.columns;
  }

  point(x) {
    this.pointer = x;
    this.draw();
  }

  add(snapshot) {
    const last = this.snapshots[this.snapshots.length - 1];
    if (last && snapshot.t < last.t) this.snapshots = []; // another run of the monitor
    this.snapshots.push(snapshot);
    while (this.snapshots[0].t < snapshot.t - SPAN) this.snapshots.shift();
  }

  // Show what was there when it was paused; snapshots are kept meanwhile.
  pause(paused) {
    this.frozen = paused ? [...this.snapshots] : null;
    this.draw();
  }

  draw() {
    const { context, width, height } = sized(this.canvas);
    const style = getComputedStyle(document.documentElement);
    const colors = Object.fromEntries(["line", "text", "faint", "measured", "commanded"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const shown = this.frozen || this.snapshots, columns = this.columns(), { panels } = this.set;
    const rows = Math.ceil(panels.length / columns);
    const [wide, high] = [width / columns, (height - AXIS) / rows];
    const end = shown.length ? shown[shown.length - 1].t : 0;
    const time = this.pointed(wide, end);
    const at = time === null ? shown[shown.length - 1] : nearest(shown, time);
    this.read(time === null ? null : time - end);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    panels.forEach((panel, k) => {
      const left = (k % columns) * wide + LEFT, top = Math.floor(k / columns) * high + TITLE;
      const frame = { left, top, right: left + wide - LEFT - RIGHT, bottom: Math.floor(k / columns) * high + high - 4, end, time, colors };
      const x = (t) => frame.right - ((end - t) / SPAN) * (frame.right - left);
      timeAxis(context, frame, x, k + columns >= panels.length, wide);
      if (panel.bar) bars(context, frame, x, panel, shown);
      else curves(context, frame, x, panel, shown);
      titles(context, frame, panel, at, wide);
    });
  }

  // The time that the pointer is at, in whichever panel.
  pointed(wide, end) {
    if (this.pointer === null) return null;
    const share = ((this.pointer % wide) - LEFT) / (wide - LEFT - RIGHT);
    return share < 0 || share > 1 ? null : end - SPAN * (1 - share);
  }

  // The newest values, in words.
  describe() {
    const at = this.snapshots[this.snapshots.length - 1];
    const values = this.set.panels.map((panel) => {
      const [measured, commanded] = [value(panel.measured, at), panel.commanded ? value(panel.commanded, at) : null];
      if (panel.bar) return `${panel.title} ${measured === null ? "unknown" : measured ? "on the ground" : "in the air"}`;
      return `${panel.title} ${measured === null ? "unknown" : number(measured)}${commanded === null ? "" : `, commanded ${number(commanded)}`} ${panel.unit}`;
    });
    return `${this.set.label}, now: ${values.join("; ")}`;
  }
}

// What can be plotted, by name, see Plots. names, units: of the fields of velocity and pose.
export function plotSets(facts, names, units) {
  const of = (list, k) => (snapshot) => snapshot[list] && snapshot[list][k];
  const titles = facts.joints.map((name) => name.replace("_joint", "").replace("_", " "));
  return {
    velocity: { label: "Velocity", columns: 1, panels: VELOCITY.map((field, k) => (
      { title: names[field], unit: units[field], low: -0.3, high: 0.3, measured: of("measured", k), commanded: of("commanded", k) })) },
    joints: { label: "Joints", columns: 4, panels: facts.plotted.map((k) => (
      { title: titles[k], unit: "rad", low: facts.stand[k] - 0.2, high: facts.stand[k] + 0.2, measured: of("joints", k), commanded: of("targets", k) })) },
    torque: { label: "Torque", columns: 4, panels: facts.plotted.map((k) => (
      { title: titles[k], unit: "Nm", low: -5, high: 5, measured: of("torques", k) })) },
    ...(facts.legs.length && { contacts: { label: "Contacts", columns: 1, panels: facts.legs.map((leg, k) => (
      { title: `${leg} foot on the ground`, unit: "", bar: true, measured: of("contacts", k) })) } }),
    body: { label: "Body", columns: 1, panels: POSE.map((field, k) => (
      { title: `${names[field]}${k ? "" : " above the lowest foot"}`, unit: units[field], low: k ? -0.1 : facts.height - 0.05, high: k ? 0.1 : facts.height + 0.05,
        measured: of("body", k), commanded: (snapshot) => snapshot.commanded[3 + k] + (k ? 0 : facts.height) })) },
  };
}

const value = (get, snapshot) => {
  const found = snapshot && get ? get(snapshot) : null;
  return Number.isFinite(found) ? found : null;
};
const number = (value) => {
  const text = Math.abs(value).toFixed(Math.abs(value) >= 10 ? 1 : 2);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
};

function nearest(snapshots, time) {
  return snapshots.reduce((best, each) => (Math.abs(each.t - time) < Math.abs(best.t - time) ? each : best), snapshots[0]);
}

function timeAxis(context, { left, right, top, bottom, end, time, colors }, x, isLast, wide) {
  const step = wide < WIDE_PANEL ? 5 : 2;
  context.lineWidth = 1;
  context.textAlign = "center";
  for (let second = -SPAN; second <= 0; second += step) {
    const at = x(end + second);
    context.strokeStyle = colors.line;
    path(context, [[at, top], [at, bottom]]);
    context.fillStyle = colors.faint;
    const last = second === 0; // within the canvas
    if (last) context.textAlign = "right";
    if (isLast) context.fillText(last ? "now" : `−${-second} s`, at, bottom + 13);
  }
  if (time === null) return;
  context.strokeStyle = colors.text;
  if (x(time) >= left && x(time) <= right) path(context, [[x(time), top], [x(time), bottom]]);
}

function curves(context, { left, right, top, bottom, colors }, x, panel, shown) {
  const series = [["commanded", panel.commanded], ["measured", panel.measured]].filter(([, get]) => get);
  const points = series.map(([name, get]) => [name, shown.map((snapshot) => [snapshot.t, value(get, snapshot)])]);
  const values = points.flatMap(([, found]) => found.map(([, v]) => v)).filter((v) => v !== null);
  const [low, high] = [Math.min(panel.low, ...values), Math.max(panel.high, ...values)];
  const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
  const step = niceStep((high - low) / Math.max(1, Math.min(TICKS.most, Math.floor((bottom - top) / TICKS.height))));
  context.textAlign = "right";
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9; tick += step) {
    context.strokeStyle = Math.abs(tick) < 1e-9 ? colors.faint : colors.line;
    path(context, [[left, y(tick)], [right, y(tick)]]);
    context.fillStyle = colors.faint;
    context.fillText(`${tick < -1e-9 ? "−" : ""}${Math.abs(tick).toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0)}`, left - 4, y(tick) + 4);
  }
  context.lineWidth = 1.5;
  for (const [name, found] of points) {
    context.strokeStyle = colors[name];
    context.beginPath();
    let broken = true;
    for (const [t, v] of found) {
      if (v !== null) broken ? context.moveTo(x(t), y(v)) : context.lineTo(x(t), y(v));
      broken = v === null;
    }
    context.stroke();
  }
}

function bars(context, { left, right, top, bottom, colors }, x, panel, shown) {
  context.fillStyle = colors.measured;
  shown.forEach((snapshot, k) => {
    const until = k + 1 < shown.length ? shown[k + 1].t : snapshot.t;
    if (value(panel.measured, snapshot)) context.fillRect(x(snapshot.t), top, x(until) - x(snapshot.t) + 0.5, bottom - top);
  });
  context.lineWidth = 1;
  context.strokeStyle = colors.faint;
  path(context, [[left, bottom], [right, bottom]]);
}

// The panel's name and unit, and the values of one snapshot.
function titles(context, { left, right, top, colors }, panel, at, wide) {
  context.textAlign = "left";
  context.fillStyle = colors.text;
  context.fillText(panel.unit && wide > WIDE_PANEL ? `${panel.title} [${panel.unit}]` : panel.title, left, top - 4);
  if (panel.bar || wide < NARROW_PANEL) return;
  context.textAlign = "right";
  let from = right;
  for (const name of ["measured", "commanded"]) {
    const found = value(panel[name], at);
    if (found === null) continue;
    context.fillStyle = colors[name];
    context.fillText(number(found), from, top - 4);
    from -= 42;
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
}

function path(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}
