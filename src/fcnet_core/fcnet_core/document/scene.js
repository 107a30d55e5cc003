// Draws a robot of boxes and capsules, and the ground, on a plain canvas: no library, and cheap on a phone.
// World and trunk frames are ROS's: x forward, y left, z up; metres.

const FIELD = 1.9; // focal length as a multiple of half the canvas' smaller side
const THICKNESS = [0.09, 0.05, 0.034]; // hip, thigh, calf [m]
const FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]];
const NORMALS = [[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];
const LIGHT = [0.35, -0.5, 0.79];
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
    if (snapshot.trunk && snapshot.legs) this.robot(context, snapshot, colors);
  }

  colors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["sky", "floor", "grid", "trunk", "leg", "dark", "head", "commanded"];
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

  robot(context, snapshot, colors) {
    const place = snapshot.trunk.slice(0, 3), turn = snapshot.trunk.slice(3);
    const world = (p) => [0, 1, 2].map((k) => place[k] + turn[3 * k] * p[0] + turn[3 * k + 1] * p[1] + turn[3 * k + 2] * p[2]);
    const half = this.facts.trunk;
    this.shadow(context, snapshot, world, half);
    const parts = [
      ...this.box(half, [0, 0, 0], world, turn, colors.trunk, 1),
      ...this.box([0.05, half[1] * 0.8, half[2] * 0.7], [half[0] * 0.93, 0, half[2] * 0.5], world, turn, colors.head, 0.94),
    ];
    const tints = [colors.dark, colors.leg, colors.dark];
    for (const leg of snapshot.legs) parts.push(...this.leg(leg.map(world), tints, 1));
    parts.sort((a, b) => b.depth - a.depth);
    for (const part of parts) part.draw(context);
    if (snapshot.ghost) { // without hips, which hardly move
      for (const leg of snapshot.ghost) {
        for (const part of this.leg(leg.map(world), [colors.commanded, colors.commanded, colors.commanded], 0.4).slice(1)) part.draw(context);
      }
    }
  }

  shadow(context, snapshot, world, half) {
    context.globalAlpha = 0.22;
    context.fillStyle = context.strokeStyle = "#000";
    const corners = [[1, 1], [1, -1], [-1, -1], [-1, 1]].map(([a, b]) => world([a * half[0], b * half[1] * 1.2, 0]));
    polygon(context, corners.map(([x, y]) => this.project([x, y, this.height(x, y)])));
    for (const leg of snapshot.legs) {
      const points = leg.map(world).map(([x, y]) => this.project([x, y, this.height(x, y)]));
      context.lineCap = "round";
      context.lineWidth = 0.035 * points[3][3];
      line(context, points[1], points[2]);
      line(context, points[2], points[3]);
    }
    context.globalAlpha = 1;
  }

  box(half, at, world, turn, color, nearer) {
    const corners = [];
    for (const x of [-1, 1]) for (const y of [-1, 1]) for (const z of [-1, 1])
      corners.push(world([at[0] + x * half[0], at[1] + y * half[1], at[2] + z * half[2]]));
    const points = corners.map((corner) => this.project(corner));
    return FACES.flatMap((face, k) => {
      const shown = face.map((c) => points[c]);
      if (area(shown) >= 0) return []; // seen from behind
      const n = NORMALS[k];
      const normal = [0, 1, 2].map((r) => turn[3 * r] * n[0] + turn[3 * r + 1] * n[1] + turn[3 * r + 2] * n[2]);
      const light = 0.72 + 0.36 * dot(normal, LIGHT);
      const depth = (shown.reduce((sum, p) => sum + p[2], 0) / 4) * nearer;
      return [{ depth, draw: (context) => { context.fillStyle = shade(color, light); polygon(context, shown); } }];
    });
  }

  leg(points, tints, alpha) {
    const shown = points.map((point) => this.project(point));
    const parts = [0, 1, 2].map((k) => ({
      depth: (shown[k][2] + shown[k + 1][2]) / 2 - (k === 0 ? 0 : 0.02),
      draw: (context) => {
        context.globalAlpha = alpha;
        context.lineCap = "round";
        const width = THICKNESS[k] * (shown[k][3] + shown[k + 1][3]) / 2;
        if (alpha === 1) {
          stroke(context, shown[k], shown[k + 1], width, shade(tints[k], 0.78));
          stroke(context, shown[k], shown[k + 1], width * 0.55, shade(tints[k], 1.08));
        } else stroke(context, shown[k], shown[k + 1], width * 0.6, tints[k]);
        context.globalAlpha = 1;
      },
    }));
    const foot = shown[3];
    parts.push({
      depth: foot[2] - 0.03,
      draw: (context) => {
        context.globalAlpha = alpha;
        context.fillStyle = alpha === 1 ? shade(tints[0], 0.6) : tints[0];
        context.beginPath();
        context.arc(foot[0], foot[1], this.facts.foot * foot[3], 0, 7);
        context.fill();
        context.globalAlpha = 1;
      },
    });
    return parts;
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

// The canvas' context in CSS pixels, sharp on any screen.
export function sized(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function line(context, a, b) {
  context.beginPath();
  context.moveTo(a[0], a[1]);
  context.lineTo(b[0], b[1]);
  context.stroke();
}

function stroke(context, a, b, width, color) {
  context.strokeStyle = color;
  context.lineWidth = width;
  line(context, a, b);
}

function polygon(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.closePath();
  context.fill();
}

function area(points) {
  return points.reduce((sum, [x, y], k) => {
    const [u, v] = points[(k + 1) % points.length];
    return sum + x * v - u * y;
  }, 0);
}

const shades = new Map();
function shade(color, light) {
  const key = `${color}${light.toFixed(2)}`;
  if (!shades.has(key)) {
    if (shades.size > 500) shades.clear();
    const value = parseInt(color.slice(1), 16);
    const parts = [value >> 16, (value >> 8) & 255, value & 255].map((part) => Math.min(255, Math.round(part * light)));
    shades.set(key, `rgb(${parts})`);
  }
  return shades.get(key);
}
