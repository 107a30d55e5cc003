// Draws a robot: hulls and discs for its trunk, capsules for its legs. Looks as the pictures of `fcnet render` do.
// Points are in the trunk's frame until `world` turns them into the scene's; metres.
import { LIGHT, area, dot, line, polygon, shade, stroke } from "./canvas.js";

const THICKNESS = [0.09, 0.05, 0.034]; // hip, thigh, calf [m]
const HUB = 16; // corners of a disc

// The scene projects points and knows the ground's height; the snapshot holds the trunk's place and the legs' joints.
export function drawRobot(context, scene, snapshot, colors) {
  const place = snapshot.trunk.slice(0, 3), turn = snapshot.trunk.slice(3);
  const rotated = (p) => [0, 1, 2].map((k) => turn[3 * k] * p[0] + turn[3 * k + 1] * p[1] + turn[3 * k + 2] * p[2]);
  const frame = { scene, rotated, world: (p) => rotated(p).map((value, k) => value + place[k]) };
  drawShadow(context, frame, snapshot);
  const parts = trunk(scene.facts, snapshot.legs, colors).map((part) => solid(frame, part));
  for (const points of snapshot.legs) parts.push(...leg(frame, points, [colors.dark, colors.leg, colors.dark], 1), ...hub(frame, points, colors));
  parts.sort((a, b) => b.depth - a.depth);
  for (const part of parts) part.draw(context);
  for (const points of snapshot.ghost || []) { // without hips, which hardly move
    for (const part of leg(frame, points, Array(3).fill(colors.commanded), 0.4).slice(1)) part.draw(context);
  }
}

// The convex parts of the trunk: their faces' corners, counter-clockwise as seen from outside.
function trunk(facts, legs, colors) {
  const [half, y, z] = facts.trunk;
  const x = Math.max(half, 1.3 * Math.abs(legs[0][0][0])); // motors at its ends, which the box may leave out
  const profile = [[0.62 * y, -z], [y, -0.25 * z], [y, 0.2 * z], [0.72 * y, z]];
  const ring = [...profile, ...profile.map(([side, up]) => [-side, up]).reverse()];
  const part = (color, faces) => ({ color, faces });
  const box = (color, at, size) => part(color, prism(rectangle(at[1], at[2], size[1], size[2]), at[0] - size[0], at[0] + size[0]));
  const head = (front, side, low, high) => rectangle(0, (low + high) * z / 2, side * y, (high - low) * z / 2).map(([b, c]) => [front * x, b, c]);
  const parts = [
    part(colors.trunk, prism(ring, -0.72 * x, 0.72 * x)),
    box(colors.dark, [0, 0, -0.3 * z], [0.55 * x, 0.6 * y, 0.85 * z]), // battery
    box(colors.dark, [0, 0, 1.04 * z], [0.62 * x, 0.5 * y, 0.06 * z]), // deck
    box(colors.dark, [0.25 * x, 0, 1.35 * z], [0.13 * x, 0.3 * y, 0.3 * z]),
    part(colors.trunk, loft(head(0.95, 0.72, 0.25, 1), head(1.17, 0.6, 0.38, 0.95))),
    box(colors.dark, [1.175 * x, 0, 0.66 * z], [0.012 * x, 0.55 * y, 0.24 * z]), // face
    ...[-1, 1].map((end) => box(colors.dark, [end * 0.84 * x, 0, 0], [0.13 * x, 0.85 * y, 0.8 * z])), // motors
    ...[-1, 1].map((left) => box(colors.head, [0, left * 1.01 * y, 0], [0.45 * x, 0.01 * y, 0.1 * z])),
    ...[-1, 1].map((left) => box(colors.lens, [1.19 * x, left * 0.28 * y, 0.66 * z], [0.006 * x, 0.1 * y, 0.07 * z])),
  ];
  return parts;
}

const rectangle = (y, z, halfY, halfZ) => [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => [y + a * halfY, z + b * halfZ]);

// The faces of a convex cross-section [y, z], counter-clockwise as seen from the front, drawn out from x0 to x1.
const prism = (ring, x0, x1) => loft(...[x0, x1].map((x) => ring.map(([y, z]) => [x, y, z])));

// The faces between two rings of corners, the second of which is in front.
function loft(back, front) {
  const sides = back.map((corner, k) => {
    const next = (k + 1) % back.length;
    return [corner, back[next], front[next], front[k]];
  });
  return [...sides, [...back].reverse(), front];
}

// A convex part of the trunk: what faces the camera, each face lit by its slope.
function solid({ scene, rotated, world }, { color, faces }) {
  const shown = faces.map((face) => ({ face, corners: face.map((corner) => scene.project(world(corner))) }));
  const depths = shown.flatMap(({ corners }) => corners.map((corner) => corner[2]));
  return {
    depth: depths.reduce((sum, depth) => sum + depth, 0) / depths.length,
    draw: (context) => {
      for (const { face, corners } of shown) {
        if (area(corners) >= 0) continue; // seen from behind
        context.fillStyle = context.strokeStyle = shade(color, 0.8 + 0.3 * dot(rotated(normal(face)), LIGHT));
        context.lineWidth = 1;
        polygon(context, corners);
        context.stroke(); // no gaps between neighbours
      }
    },
  };
}

function normal([a, b, c]) {
  const [u, v] = [b, c].map((point) => point.map((value, k) => value - a[k]));
  const cross = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
  const length = Math.hypot(...cross) || 1;
  return cross.map((value) => value / length);
}

// The motor of the thigh, a disc on the outer side of the hip.
function hub({ scene, world }, points, colors) {
  const joint = points[1], outward = Math.sign(points[0][1]), radius = 0.75 * scene.facts.trunk[2];
  const disc = (size) => Array.from({ length: HUB }, (_, k) => {
    const angle = (-outward * 2 * Math.PI * k) / HUB;
    return scene.project(world([joint[0] + size * radius * Math.cos(angle), joint[1] + outward * 0.03, joint[2] + size * radius * Math.sin(angle)]));
  });
  const rim = disc(1);
  const draw = (context) => {
    for (const [corners, color] of [[rim, colors.dark], [disc(0.62), colors.head], [disc(0.3), colors.dark]]) {
      context.fillStyle = color;
      polygon(context, corners);
    }
  };
  return area(rim) < 0 ? [{ depth: rim[0][2] - 0.05, draw }] : [];
}

function leg({ scene, world }, points, tints, alpha) {
  const shown = points.map((point) => scene.project(world(point)));
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
      context.arc(foot[0], foot[1], scene.facts.foot * foot[3], 0, 7);
      context.fill();
      context.globalAlpha = 1;
    },
  });
  return parts;
}

function drawShadow(context, { scene, world }, { legs }) {
  const [x, y] = scene.facts.trunk;
  const onGround = ([a, b]) => scene.project([a, b, scene.height(a, b)]);
  context.globalAlpha = 0.22;
  context.fillStyle = context.strokeStyle = "#000";
  polygon(context, [[1, 1], [1, -1], [-1, -1], [-1, 1]].map(([a, b]) => onGround(world([a * x, b * y * 1.2, 0]))));
  for (const points of legs) {
    const shown = points.map((point) => onGround(world(point)));
    context.lineCap = "round";
    context.lineWidth = 0.035 * shown[3][3];
    line(context, shown[1], shown[2]);
    line(context, shown[2], shown[3]);
  }
  context.globalAlpha = 1;
}
