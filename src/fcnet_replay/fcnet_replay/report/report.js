// The main script of a report: unpacks the data, draws the plots, and plays the walk back. `plotted` is a global name.
import { Plots, number, unpack } from "./plots.js";
import { CAMERAS, Scene } from "./scene.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const TRUNK = 12, LEG = 9, LEGS = 4; // numbers of a pose: of the trunk, and of each leg without its hip
const KEPT = 0.25; // of the shown range, which stays ahead of the playback when it leaves the plots

class Playback {
  constructor(element, arrays, plots) {
    const facts = JSON.parse(element.dataset.playback);
    this.facts = facts;
    this.plots = plots;
    this.columns = facts.columns.map((column) => arrays[column]);
    this.count = this.columns[0].length;
    this.end = (this.count - 1) * facts.period;
    this.time = 0;
    this.speed = 1;
    this.playing = false;
    this.canvas = element.querySelector("canvas");
    this.scene = new Scene(this.canvas, facts.scene);
    this.addControls(element);
    this.seek(0);
    addEventListener("beforeprint", () => this.scene.redraw());
  }

  addControls(element) {
    const cameras = element.querySelector(".cameras"), bar = element.querySelector(".bar");
    for (const camera of Object.keys(CAMERAS)) button(cameras, camera, `camera: ${camera}`, () => this.scene.choose(camera));
    button(cameras, "+", "zoom in on the robot", () => this.scene.zoom(1 / 1.2));
    button(cameras, "−", "zoom out from the robot", () => this.scene.zoom(1.2));
    this.play = button(bar, "▶ Play", "", () => this.toggle());
    this.slider = document.createElement("input");
    Object.assign(this.slider, { type: "range", min: 0, max: this.end, step: this.facts.period, value: 0, ariaLabel: "time of the playback in seconds" });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.clock = document.createElement("output");
    const speeds = document.createElement("select");
    speeds.ariaLabel = "speed of the playback";
    for (const speed of SPEEDS) speeds.add(new Option(`× ${speed}`, speed, speed === 1, speed === 1));
    speeds.addEventListener("change", () => { this.speed = Number(speeds.value); });
    bar.append(this.slider, this.clock, speeds);
    const { group } = this.facts, shown = document.createElement("span");
    shown.className = "zooms";
    shown.append("plots ");
    bar.append(shown);
    button(shown, "+", "zoom in on the plots", () => this.around(0.5));
    button(shown, "−", "zoom out of the plots", () => this.plots.zoom(group, 2));
    button(shown, "←", "earlier", () => this.plots.zoom(group, 1, -0.5));
    button(shown, "→", "later", () => this.plots.zoom(group, 1, 0.5));
    button(shown, "all", "show all of the plots", () => this.plots.range(group, null));
  }

  // Zoom in on the plots around the time of the playback.
  around(factor) {
    const [low, high] = this.plots.shown(this.facts.group), half = ((high - low) * factor) / 2;
    const middle = Math.min(high - half, Math.max(low + half, this.time));
    this.plots.range(this.facts.group, [middle - half, middle + half]);
  }

  toggle() {
    this.playing = !this.playing;
    this.play.textContent = this.playing ? "❚❚ Pause" : "▶ Play";
    if (!this.playing) return;
    if (this.time >= this.end) this.time = 0;
    let last = performance.now();
    const next = (now) => {
      if (!this.playing) return;
      this.seek(this.time + ((now - last) / 1000) * this.speed);
      last = now;
      if (this.time >= this.end) this.toggle();
      else requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  }

  seek(time) {
    this.time = Math.min(this.end, Math.max(0, time));
    this.slider.value = this.time;
    this.clock.textContent = `${this.time.toFixed(2)} s`;
    this.slider.ariaValueText = this.clock.textContent;
    this.scene.draw(this.snapshot(this.time));
    this.follow();
    this.plots.mark(this.facts.group, this.time);
  }

  // Plots that show a part of the time come along.
  follow() {
    const [low, high] = this.plots.shown(this.facts.group);
    if (!this.playing || (this.time >= low && this.time <= high)) return;
    const begin = Math.min(this.time - KEPT * (high - low), this.end - (high - low));
    this.plots.range(this.facts.group, [begin, begin + high - low]);
  }

  // The robot at a time as the scene takes it, between two poses.
  snapshot(time) {
    const place = time / this.facts.period, row = Math.min(Math.floor(place), this.count - 1), next = Math.min(row + 1, this.count - 1);
    const share = place - row;
    const at = (k) => {
      const [a, b] = [this.columns[k][row], this.columns[k][next]];
      return Number.isNaN(b) ? a : a + share * (b - a);
    };
    const legs = (first) => this.facts.hips.map((hip, leg) => [hip, ...[0, 1, 2].map((point) => [0, 1, 2].map((axis) => at(first + LEG * leg + 3 * point + axis)))]);
    const trunk = Array.from({ length: TRUNK }, (_, k) => at(k));
    const ghost = this.columns.length > TRUNK + LEG * LEGS ? legs(TRUNK + LEG * LEGS) : null;
    return {
      trunk: trunk.some(Number.isNaN) ? null : trunk,
      legs: legs(TRUNK),
      ghost: ghost && !ghost.flat(2).some(Number.isNaN) ? ghost : null,
    };
  }
}

function button(parent, text, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  if (label) made.ariaLabel = label;
  made.addEventListener("click", act);
  parent.append(made);
  return made;
}

const arrays = await unpack(plotted);
const plots = new Plots(plotted.plots, arrays);
const playbacks = [...document.querySelectorAll("[data-playback]")].map((element) => new Playback(element, arrays, plots));
plots.onPick = (group, time) => playbacks.find(({ facts }) => facts.group === group)?.seek(time);
window.report = { plots, playbacks, number }; // for the console
