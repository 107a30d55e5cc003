// Draws the ground and what stands on it on a plain canvas: no library, and cheap on a phone.
// World and trunk frames are ROS's: x forward, y left, z up; metres.
import { LIGHT, dot, line, polygon, shade, sized } from "./canvas.js";
import { drawRobot } from "./robot.js";

const FIELD = 1.9; // focal length as a multiple of half the canvas' smaller side
const SHOWN = 2.6; // [m] of known ground around the robot
const LONGEST = 5; // cells of the ground that are drawn as one where they are level
// Where a camera stands: angle from the robot's heading, height above the horizon [rad].
export const CAMERAS = { corner: [-1.0, 0.3], side: [-Math.PI / 2, 0.12], front: [0, 0.15], behind: [Math.PI, 0.45], top: [Math.PI, 1.5] };

export class Scene {
  constructor(canvas, facts) {
    this.canvas = canvas;
    this.facts = facts;
    this.azimuth = -1.0;
    this.elevation = 0.3;
    this.distance = 1.75;
    this.middle = [0, 0, facts.height * 0.65];
    this.following = null; // the angle from the robot's heading that the camera keeps
    this.ground = null;
    this.drawn = 0; // snapshots
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(canvas);
  }

  // One of CAMERAS; it turns with the robot until somebody drags it.
  choose(camera) {
    [this.following, this.elevation] = CAMERAS[camera];
    this.redraw();
  }

  // The ground around the robot as the monitor sends it: heights [mm] row by row; null where it is level at zero.
  setGround({ x, y, step, heights }) {
    const level = heights.every((row) => row.every((height) => height === 0));
    this.ground = level ? null : { x, y, step, heights, strips: strips(x, y, step, heights) };
    this.redraw();
  }

  // Height [m] of the ground, zero where it is not known.
  height(x, y) {
    if (!this.ground) return 0;
    const { step, heights } = this.ground;
    const row = heights[Math.round((y - this.ground.y) / step)];
    return ((row && row[Math.round((x - this.ground.x) / step)]) || 0) / 1000;
  }

  listen() {
    const held = new Map();
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      if (held.size === 2) {
        const other = [...held].find(([id]) => id !== event.pointerId)[1];
        this.zoom(Math.hypot(before[0] - other[0], before[1] - other[1]) / Math.max(1, Math.hypot(now[0] - other[0], now[1] - other[1])));
      } else {
        this.following = null;
        this.azimuth -= (now[0] - before[0]) * 0.008;
        this.elevation = Math.min(1.5, Math.max(0.02, this.elevation + (now[1] - before[1]) * 0.006));
      }
      held.set(event.pointerId, now);
      this.redraw();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => held.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.1 : 1 / 1.1);
    }, { passive: false });
  }

  zoom(factor) {
    this.distance = Math.min(12, Math.max(0.8, this.distance * factor));
    this.redraw();
  }

  redraw() {
    if (this.snapshot) this.draw(this.snapshot);
  }

  draw(snapshot) {
    this.snapshot = snapshot;
    this.drawn += 1;
    const { context, width, height } = sized(this.canvas);
    const colors = this.colors();
    this.aim(snapshot.trunk, width, height);
    const horizon = height / 2 - Math.tan(this.elevation) * this.focus;
    context.fillStyle = colors.sky;
    context.fillRect(0, 0, width, height);
    const floor = context.createLinearGradient(0, Math.max(0, horizon), 0, height);
    floor.addColorStop(0, colors.sky);
    floor.addColorStop(0.5, colors.floor);
    context.fillStyle = floor;
    context.fillRect(0, Math.max(0, horizon), width, height);
    if (this.ground) this.land(context, colors);
    else this.grid(context, colors);
    if (snapshot.trunk && snapshot.legs) drawRobot(context, this, snapshot, colors);
  }

  colors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["sky", "floor", "grid", "trunk", "leg", "dark", "head", "lens", "commanded"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  // The camera looks at the trunk, wherever it walks.
  aim(trunk, width, height) {
    if (trunk) {
      const far = Math.hypot(trunk[0] - this.middle[0], trunk[1] - this.middle[1]) > 0.5;
      const share = far ? 1 : 0.2;
      this.middle[0] += share * (trunk[0] - this.middle[0]);
      this.middle[1] += share * (trunk[1] - this.middle[1]);
      this.middle[2] += share * (this.height(trunk[0], trunk[1]) + this.facts.height * 0.65 - this.middle[2]);
      if (this.following !== null) {
        const off = Math.atan2(trunk[6], trunk[3]) + this.following - this.azimuth;
        this.azimuth += 0.2 * Math.atan2(Math.sin(off), Math.cos(off));
      }
    }
    const [ca, sa, ce, se] = [Math.cos(this.azimuth), Math.sin(this.azimuth), Math.cos(this.elevation), Math.sin(this.elevation)];
    this.forward = [-ce * ca, -ce * sa, -se];
    this.right = [-sa, ca, 0];
    this.up = [-se * ca, -se * sa, ce];
    this.focus = FIELD * Math.min(width, height * 1.4) / 2;
    this.center = [width / 2, height / 2];
  }

  // x, y on the canvas, distance along the view.
  project(point) {
    const way = [point[0] - this.middle[0], point[1] - this.middle[1], point[2] - this.middle[2]];
    const depth = dot(way, this.forward) + this.distance;
    const scale = this.focus / Math.max(depth, 0.05);
    return [this.center[0] + dot(way, this.right) * scale, this.center[1] - dot(way, this.up) * scale, depth, scale];
  }

  grid(context, colors) {
    const step = 0.25, count = 12;
    const [x, y] = [Math.round(this.middle[0] / step) * step, Math.round(this.middle[1] / step) * step];
    context.lineWidth = 1;
    context.strokeStyle = colors.grid;
    for (let i = -count; i <= count; i++) {
      for (const turned of [false, true]) {
        const at = (u) => (turned ? [x + u * step, y + i * step, 0] : [x + i * step, y + u * step, 0]);
        for (let u = -count; u < count; u += 4) {
          const [a, b] = [this.project(at(u)), this.project(at(u + 4))];
          if (a[2] < 0.3 || b[2] < 0.3) continue;
          context.globalAlpha = 0.75 * Math.max(0, 1 - Math.hypot(i, u + 2) / (count + 2));
          line(context, a, b);
        }
      }
    }
    context.globalAlpha = 1;
  }

  // The known ground around the robot, what is farthest from the camera first.
  land(context, colors) {
    const camera = [0, 1].map((k) => this.middle[k] - this.distance * this.forward[k]);
    const fromFar = (axis) => (a, b) => Math.abs(b.at[axis] - camera[axis]) - Math.abs(a.at[axis] - camera[axis]);
    for (const strip of [...this.ground.strips].sort(fromFar(0))) {
      if (Math.abs(strip.at[0] - this.middle[0]) > SHOWN) continue;
      for (const { at, corners, light } of [...strip.cells].sort(fromFar(1))) {
        const near = SHOWN - Math.hypot(at[0] - this.middle[0], at[1] - this.middle[1]);
        if (near <= 0) continue;
        const points = corners.map((corner) => this.project(corner));
        if (points.some((point) => point[2] < 0.2)) continue;
        context.globalAlpha = Math.min(1, near / 0.7);
        context.fillStyle = context.strokeStyle = shade(colors.floor, light);
        polygon(context, points);
        if (context.globalAlpha === 1) context.stroke(); // no gaps between neighbours
      }
    }
    context.globalAlpha = 1;
  }
}

// The ground's cells in strips along y, level ones joined; each with its middle, corners and light.
function strips(x0, y0, step, heights) {
  const made = [];
  for (let i = 0; i + 1 < heights[0].length; i++) {
    const x = x0 + i * step, cells = [];
    const same = (j) => heights[j][i] === heights[j + 1][i] && heights[j][i + 1] === heights[j + 1][i + 1];
    for (let j = 0, next; j + 1 < heights.length; j = next) {
      for (next = j + 1; same(j) && next + 1 < heights.length && next - j < LONGEST && same(next); ) next++;
      const corner = (row, column) => [x0 + column * step, y0 + row * step, heights[row][column] / 1000];
      const corners = [corner(j, i), corner(j, i + 1), corner(next, i + 1), corner(next, i)];
      const [slopeX, slopeY] = [corners[1][2] - corners[0][2], (corners[3][2] - corners[0][2]) / (next - j)].map((rise) => rise / step);
      const length = Math.hypot(slopeX, slopeY, 1);
      const facing = dot([-slopeX / length, -slopeY / length, 1 / length], LIGHT) - LIGHT[2];
      const square = (Math.floor(x / 0.5 + 1e-6) + Math.floor(corners[0][1] / 0.5 + 1e-6)) % 2 ? 0 : 0.05; // shows motion
      const light = Math.min(1.3, Math.max(0.4, 1 - square + 1.2 * facing + 0.4 * corners[0][2]));
      cells.push({ at: [x + step / 2, (corners[0][1] + corners[3][1]) / 2], corners, light });
    }
    made.push({ at: [x + step / 2, 0], cells });
  }
  return made;
}
