// What drawing in three dimensions on a plain canvas needs.

export const LIGHT = [0.35, -0.5, 0.79]; // where it comes from

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

export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

export function line(context, a, b) {
  context.beginPath();
  context.moveTo(a[0], a[1]);
  context.lineTo(b[0], b[1]);
  context.stroke();
}

export function stroke(context, a, b, width, color) {
  context.strokeStyle = color;
  context.lineWidth = width;
  line(context, a, b);
}

export function polygon(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.closePath();
  context.fill();
}

export function area(points) {
  return points.reduce((sum, [x, y], k) => {
    const [u, v] = points[(k + 1) % points.length];
    return sum + x * v - u * y;
  }, 0);
}

const shades = new Map();
export function shade(color, light) {
  const key = `${color}${light.toFixed(2)}`;
  if (!shades.has(key)) {
    if (shades.size > 500) shades.clear();
    const value = parseInt(color.slice(1), 16);
    const parts = [value >> 16, (value >> 8) & 255, value & 255].map((part) => Math.min(255, Math.round(part * light)));
    shades.set(key, `rgb(${parts})`);
  }
  return shades.get(key);
}
