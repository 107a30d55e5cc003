// A strip chart: the last seconds of pairs of values, one row for each pair.
import { sized } from "./scene.js";

const SPAN = 10; // [s]

export class Chart {
  // rows: {name, unit, low, high}; values outside widen the row.
  constructor(canvas, rows) {
    this.canvas = canvas;
    this.rows = rows;
    this.samples = [];
  }

  // measured and commanded: a number, or null, for every row.
  add(time, measured, commanded) {
    const last = this.samples[this.samples.length - 1];
    if (last && time < last.time) this.samples = [];
    this.samples.push({ time, measured, commanded });
    while (this.samples[0].time < time - SPAN) this.samples.shift();
  }

  reset(rows) {
    this.rows = rows;
    this.samples = [];
  }

  draw() {
    const { context, width, height } = sized(this.canvas);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    context.clearRect(0, 0, width, height);
    const end = this.samples.length ? this.samples[this.samples.length - 1].time : 0;
    const each = height / this.rows.length;
    context.font = "11px system-ui, sans-serif";
    this.rows.forEach((row, k) => {
      const [low, high] = this.range(row, k);
      const x = (time) => width - 52 - ((end - time) / SPAN) * (width - 56);
      const y = (value) => each * (k + 1) - 5 - ((value - low) / (high - low)) * (each - 10);
      context.strokeStyle = color("line");
      context.lineWidth = 1;
      if (low <= 0 && high >= 0) path(context, [[4, y(0)], [width - 52, y(0)]]);
      for (const [name, colored] of [["commanded", "commanded"], ["measured", "measured"]]) {
        context.strokeStyle = color(colored);
        context.lineWidth = 1.6;
        curve(context, this.samples.map((sample) => [x(sample.time), sample[name] && sample[name][k] !== null ? y(sample[name][k]) : null]));
      }
      context.fillStyle = color("faint");
      context.textAlign = "left";
      context.fillText(`${row.name} ${row.unit}`, 6, each * k + 12);
      const last = this.samples[this.samples.length - 1];
      context.textAlign = "right";
      for (const [name, line] of [["measured", 0], ["commanded", 1]]) {
        const value = last && last[name] ? last[name][k] : null;
        if (value === null) continue;
        context.fillStyle = color(name);
        context.fillText(value.toFixed(2), width - 4, each * (k + 0.5) + 14 * line - 2);
      }
    });
  }

  range(row, k) {
    let [low, high] = [row.low, row.high];
    for (const sample of this.samples) {
      for (const values of [sample.measured, sample.commanded]) {
        if (values && values[k] !== null) [low, high] = [Math.min(low, values[k]), Math.max(high, values[k])];
      }
    }
    return [low, high];
  }
}

function path(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

function curve(context, points) {
  context.beginPath();
  let broken = true;
  for (const [x, y] of points) {
    if (y !== null) broken ? context.moveTo(x, y) : context.lineTo(x, y);
    broken = y === null;
  }
  context.stroke();
}
