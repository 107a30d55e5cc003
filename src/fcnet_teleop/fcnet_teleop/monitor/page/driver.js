// The command of the person at this page, sent while it is held and taken back when in doubt.
//
// The server accepts a velocity only from a page that has sent zero before, has a snapshot younger than 0.5 s, and sends
// a command at least every 0.5 s. So closing, reloading, hiding or losing the page stops the robot, whatever this file does.

const PERIOD = 66; // [ms] between two commands
const LINGER = 1000; // [ms] for which zero is repeated
const TIMEOUT = 700; // [ms] after which a command counts as lost
export const VELOCITY = ["vx", "vy", "yaw_rate"];
export const POSE = ["height", "roll", "pitch"];
export const STYLE = ["width", "clearance", "frequency"];

export class Driver {
  // silent: sends nothing, because the server shows a recording and would refuse it.
  constructor(ranges, notify, silent) {
    this.ranges = ranges;
    this.notify = notify;
    this.silent = silent;
    this.held = Object.fromEntries(VELOCITY.map((field) => [field, 0])); // sliders
    this.inputs = new Map(); // sticks and keys: fractions of the range by field
    this.pose = Object.fromEntries(POSE.map((field) => [field, 0]));
    this.posed = false;
    this.style = Object.fromEntries(STYLE.map((field) => [field, 0]));
    this.styled = {}; // what of it has to be sent
    this.styledAt = -Infinity; // [ms]
    this.responded = this.began = 0; // when the server last did, and the drive [ms]
    this.speed = 0.5;
    this.page = [...crypto.getRandomValues(new Uint32Array(3))].map((word) => word.toString(36)).join("");
    this.number = 0;
    this.seen = 0;
    this.blocked = false;
    this.busy = false;
    this.driving = false;
    this.moved = -LINGER;
    this.roundTrip = null; // [ms]
    setInterval(() => this.update(), PERIOD);
  }

  // Fractions of the range, -1 to 1, of a stick or the keys; none when released.
  input(name, fractions) {
    const was = this.velocity();
    if (fractions && Object.values(fractions).some((value) => value !== 0)) this.inputs.set(name, fractions);
    else this.inputs.delete(name);
    if (was.some((value) => value !== 0) && this.velocity().every((value) => value === 0)) this.sendZero();
  }

  hold(field, value) {
    this.held[field] = value;
    if (this.velocity().every((each) => each === 0)) this.sendZero();
  }

  setPose(values) {
    Object.assign(this.pose, values);
    this.posed = true;
  }

  setStyle(field, value) {
    this.style[field] = this.styled[field] = value;
    this.styledAt = performance.now();
  }

  // Take the velocity back. What is still held down counts again after it has been released.
  halt() {
    const moving = this.velocity().some((value) => value !== 0);
    for (const field of VELOCITY) this.held[field] = 0;
    this.blocked = this.inputs.size > 0;
    if (moving) this.sendZero();
  }

  // The commanded velocity [m/s, m/s, rad/s].
  velocity() {
    if (this.blocked) return [0, 0, 0];
    return VELOCITY.map((field) => {
      const [low, high] = this.ranges[field];
      let fraction = 0;
      for (const fractions of this.inputs.values()) fraction += fractions[field] || 0;
      fraction = Math.max(-1, Math.min(1, fraction)) * this.speed;
      const value = this.inputs.size ? fraction * (fraction < 0 ? -low : high) : this.held[field];
      return Math.round(value * 1000) / 1000 || 0;
    });
  }

  update() {
    if (this.blocked && this.inputs.size === 0) {
      this.blocked = false;
      this.sendZero();
    }
    const velocity = this.velocity(), now = performance.now();
    const moving = velocity.some((value) => value !== 0);
    if (moving) this.moved = now;
    if (this.busy || !(now - this.moved < LINGER || this.posed || Object.keys(this.styled).length)) return;
    if (moving && !this.driving) this.began = now;
    this.send(moving && !this.driving ? [0, 0, 0] : velocity); // a drive begins with zero
    this.driving = moving;
  }

  command(velocity) {
    const pose = this.posed ? POSE.map((field) => this.pose[field]) : null;
    return JSON.stringify({ page: this.page, number: ++this.number, seen: this.seen, velocity, pose, style: this.styled });
  }

  async send(velocity) {
    const content = this.command(velocity), start = performance.now();
    this.busy = true;
    this.posed = false;
    this.styled = {};
    try {
      const response = await fetch("/command", { method: "POST", body: content, signal: AbortSignal.timeout(TIMEOUT) });
      const { message } = await response.json();
      this.responded = performance.now();
      this.roundTrip = this.responded - start;
      if (message) this.refused(message);
    } catch {
      const silence = ((performance.now() - Math.max(this.responded, this.began)) / 1000).toFixed(1);
      if (velocity.some((value) => value !== 0)) this.refused(`the robot is stopped: lost contact with the monitor for ${silence} s`);
    } finally {
      this.busy = false;
    }
  }

  refused(message) {
    this.notify(message, true);
    this.halt();
  }

  // At once, also while the page is being left.
  sendZero() {
    if (this.silent) return;
    this.moved = performance.now();
    this.driving = false;
    fetch("/command", { method: "POST", body: this.command([0, 0, 0]), keepalive: true }).catch(() => {});
  }
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

// A stick under a finger, the mouse or, where it has the focus, the arrow keys; it springs back. Calls moved(right, up),
// both -1 to 1, or moved(null).
export function stick(element, moved) {
  const knob = element.querySelector("b");
  const flat = element.classList.contains("flat");
  const held = new Set(); // arrow keys
  let pointer = null;
  const place = (x, y) => { knob.style.transform = x || y ? `translate(${x}px, ${y}px)` : ""; };
  const release = () => {
    if (pointer === null && !held.size) return;
    pointer = null;
    held.clear();
    element.classList.remove("held");
    place(0, 0);
    moved(null);
  };
  const move = (event) => {
    if (event.pointerId !== pointer) return;
    const box = element.getBoundingClientRect();
    const reach = box.width / 2 - 24;
    let x = event.clientX - (box.left + box.width / 2), y = flat ? 0 : event.clientY - (box.top + box.height / 2);
    const length = Math.hypot(x, y);
    if (length > reach) [x, y] = [(x / length) * reach, (y / length) * reach];
    place(x, y);
    const clear = (value) => (Math.abs(value) < 0.1 ? 0 : (value - Math.sign(value) * 0.1) / 0.9);
    moved(clear(x / reach), clear(-y / reach));
  };
  element.addEventListener("pointerdown", (event) => {
    if (pointer !== null) return;
    pointer = event.pointerId;
    element.setPointerCapture(pointer);
    element.classList.add("held");
    move(event);
  });
  element.addEventListener("pointermove", move);
  const push = () => {
    const [right, up] = [...held].reduce(([x, y], key) => [x + ARROWS[key][0], y + (flat ? 0 : ARROWS[key][1])], [0, 0]);
    const reach = element.clientWidth / 2 - 24;
    place(right * reach, -up * reach);
    element.classList.add("held");
    moved(right, up);
  };
  element.addEventListener("keydown", (event) => {
    if (!ARROWS[event.key] || pointer !== null) return;
    event.preventDefault();
    held.add(event.key);
    push();
  });
  element.addEventListener("keyup", (event) => {
    if (!held.has(event.key)) return;
    if (held.size === 1) return release();
    held.delete(event.key);
    push();
  });
  element.addEventListener("blur", release);
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    element.addEventListener(end, (event) => { if (event.pointerId === pointer) release(); });
  }
  return release;
}
