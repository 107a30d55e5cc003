// The monitor's page: snapshots and status come as server-sent events, commands go out as requests.
import { Chart } from "./chart.js";
import { Driver, POSE, VELOCITY, stick } from "./driver.js";
import { Scene } from "./scene.js";

const LATE = 500; // [ms] without a snapshot after which nothing is driven
const STOP_REPEAT = 200; // [ms] between two emergency stops while none has arrived
const NAMES = { vx: "forward", vy: "left", yaw_rate: "turn left", height: "height", roll: "lean right", pitch: "nose down" };
const UNITS = { vx: "m/s", vy: "m/s", yaw_rate: "rad/s", height: "m", roll: "rad", pitch: "rad" };
const MODES = { walking: "good", standing: "good", standing_up: "warn", lying_down: "warn", recovering: "warn", passive: "quiet", fault: "bad" };
const BUTTON_OF_MODE = { standing_up: "stand_up", standing: "stand_up", walking: "walk", lying_down: "lie_down", recovering: "recover" };
const KEYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", Escape: "escape", " ": "space" };

const $ = (id) => document.getElementById(id);
let driver, scene, velocityChart, jointChart, facts;
let source = null, latest = null, shown = null, arrived = 0, joint = 1, responses = null;
let arrivals = [];

$("stop").addEventListener("submit", (event) => {
  event.preventDefault();
  emergencyStop();
});

// Repeated until it has arrived. It needs no open connection, and is sent while the page is being left.
async function emergencyStop() {
  driver?.halt();
  notify("emergency stop…");
  for (;;) {
    try {
      const response = await fetch("/request/emergency_stop", { method: "POST", keepalive: true });
      if (response.ok) return; // the responses of controller and bridge come with the status
      notify((await response.json()).message);
    } catch {
      notify("THE MONITOR DOES NOT RESPOND: stop the robot by hand");
    }
    await new Promise((done) => setTimeout(done, STOP_REPEAT));
  }
}

async function send(request) {
  if (request === "emergency_stop") return emergencyStop();
  if (request !== "walk") driver.halt();
  if (request === "reset") level();
  notify(`${request.replace("_", " ")}…`);
  try {
    const response = await fetch(`/request/${request}`, { method: "POST" });
    if (!response.ok) notify((await response.json()).message);
  } catch {
    notify("the monitor does not respond");
  }
}

function notify(message) {
  $("message").textContent = message;
}

function level() {
  driver.setPose({ height: 0, roll: 0, pitch: 0 });
  showSliders();
}

// ---- snapshots and status

function connect() {
  if (source || document.hidden) return;
  source = new EventSource("/events");
  source.addEventListener("snapshot", (event) => {
    latest = JSON.parse(event.data);
    arrived = performance.now();
    driver.seen = latest.t;
    arrivals.push(arrived);
    while (arrivals[0] < arrived - 2000) arrivals.shift();
    requestAnimationFrame(show);
  });
  source.addEventListener("status", (event) => showStatus(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source && source.readyState === EventSource.CLOSED) {
      disconnect();
      setTimeout(connect, 1000);
    }
  });
  driver.sendZero();
}

function disconnect() {
  source?.close();
  source = null;
}

// Hidden, closed or left: nothing moves by this page any more.
function leave() {
  releaseAll();
  driver.sendZero();
  disconnect();
}

function releaseAll() {
  keys.clear();
  driver.inputs.clear();
  for (const release of releases) release();
  driver.halt();
  showSliders();
}

function show() {
  if (shown === latest) return;
  shown = latest;
  scene.draw(latest);
  velocityChart.add(latest.t, latest.measured, latest.commanded.slice(0, 3));
  velocityChart.draw();
  const one = (values) => (values ? [values[joint]] : null);
  jointChart.add(latest.t, one(latest.joints), one(latest.targets));
  jointChart.draw();
  showJoints();
  $("problem").hidden = !latest.problem;
  $("problem").textContent = latest.problem;
  $("source").textContent = latest.source ? ` by ${latest.source}` : "";
}

function showJoints() {
  facts.joints.forEach((_, k) => {
    const { measured, target, error, box } = jointRows[k];
    const at = (value) => `${100 * (value - facts.lower[k]) / (facts.upper[k] - facts.lower[k])}%`;
    measured.hidden = !latest.joints;
    target.hidden = !latest.targets;
    if (latest.joints) measured.style.left = at(latest.joints[k]);
    if (latest.targets) target.style.left = at(latest.targets[k]);
    const off = latest.joints && latest.targets ? latest.targets[k] - latest.joints[k] : null;
    error.textContent = off === null ? (latest.damped ? "damped" : "") : `${off < 0 ? "−" : "+"}${Math.abs(off).toFixed(2)}`;
    box.classList.toggle("far", off !== null && Math.abs(off) > 0.5);
  });
}

function showStatus(status) {
  $("mode").textContent = (status.mode || "no controller").replace("_", " ");
  $("mode").className = `pill ${MODES[status.mode] || "quiet"}`;
  for (const button of document.querySelectorAll("[data-request]")) {
    button.classList.toggle("now", BUTTON_OF_MODE[status.mode] === button.dataset.request);
  }
  if (status.mode === "fault" && driver.velocity().some((value) => value !== 0)) {
    notify("in fault: not driving; reset first");
    driver.halt();
  }
  fill($("faults"), status.faults.map((fault) => node("p", fault)));
  $("faults").hidden = status.faults.length === 0;
  if (responses !== null && status.response_count > responses) notify(status.responses[status.responses.length - 1]);
  responses = status.response_count;
  showDiagnostics(status.statuses);
}

function showDiagnostics(statuses) {
  if (!statuses.length) return;
  const open = new Set([...document.querySelectorAll(".status details[open]")].map((each) => each.dataset.name));
  fill($("statuses"), statuses.map((status) => {
    const box = node("div", "", `status ${status.level}${status.old ? " old" : ""}`);
    const details = node("details");
    details.dataset.name = status.name;
    details.open = open.has(status.name);
    details.append(node("summary", "figures"), list(Object.entries(status.values).filter(([, value]) => value !== "")));
    const head = node("p");
    head.append(node("strong", status.name), `: ${status.message}`);
    box.append(head, details);
    return box;
  }));
  timing = statuses.flatMap((status) => figures(status.values));
}

let timing = [];
function figures(values) {
  const pairs = [];
  const pair = (name, key) => {
    if (values[`${key}_p99_ms`] > 0) pairs.push([name, `${values[`${key}_p50_ms`]} / ${values[`${key}_p99_ms`]} ms`]);
  };
  const wanted = values.wanted_rate_hz > 0 ? ` of ${values.wanted_rate_hz}` : "";
  if (values.rate_hz) pairs.push(["control rate", `${values.rate_hz}${wanted} Hz`]);
  pair("state to target, p50 / p99", "response");
  pair("policy step, p50 / p99", "step");
  pair("loop wakes late, p50 / p99", "wake");
  pair("bridge period, p50 / p99", "io_period");
  if (values.packet_loss_percent) pairs.push(["packet loss", `${values.packet_loss_percent} %`]);
  if (values.real_time_factor) pairs.push(["real-time factor", values.real_time_factor]);
  return pairs;
}

function watch() {
  const silence = performance.now() - arrived, late = silence > LATE;
  const rate = arrivals.filter((time) => time > performance.now() - 2000).length / 2;
  $("link").textContent = late ? (arrived ? `no snapshot for ${(silence / 1000).toFixed(1)} s` : "connecting") : `${rate.toFixed(0)} snapshots/s`;
  $("link").className = `pill ${late ? "warn" : "quiet"}`;
  if (late && driver.velocity().some((value) => value !== 0)) {
    notify("no snapshot: not driving");
    driver.halt();
  }
  if (document.hidden) return;
  const age = latest && latest.age !== null ? `${Math.round(1000 * latest.age)} ms` : "none";
  const trip = driver.roundTrip === null ? [] : [["command round trip", `${Math.round(driver.roundTrip)} ms`]];
  fill($("timing"), list([["newest state", age], ...trip, ...timing]).children);
  showSliders();
}

// ---- controls

const sliders = {};
function addSlider(parent, field, changed) {
  const [low, high] = facts.ranges[field];
  const input = node("input");
  Object.assign(input, { type: "range", min: low, max: high, step: 0.01, value: 0, id: field });
  const label = node("label", NAMES[field]), output = node("output"), row = node("div", "", "slider");
  label.htmlFor = field;
  input.addEventListener("input", () => {
    const value = Math.abs(input.value) < 0.02 * (high - low) ? 0 : Number(input.value); // a detent at zero
    if (changed(value) === false) input.value = 0;
    showSliders();
  });
  row.append(label, input, output);
  parent.append(row);
  sliders[field] = { input, output };
}

function showSliders() {
  const velocity = driver.velocity();
  [...VELOCITY, ...POSE].forEach((field, k) => {
    const value = k < 3 ? velocity[k] : driver.pose[field], { input, output } = sliders[field];
    if (document.activeElement !== input || Number(input.value) !== value) input.value = value;
    const text = `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)} ${UNITS[field]}`;
    if (output.textContent !== text) output.textContent = text;
  });
}

const jointRows = [];
function addJoint(name, k) {
  const box = node("button", "", "joint");
  const track = node("span", "", "track"), measured = node("span", "", "measured"), target = node("span", "", "target");
  const error = node("span", "", "error");
  track.append(measured, target);
  box.append(node("span", name.replace("_joint", "").replace("_", " ")), error, track);
  box.addEventListener("click", () => chooseJoint(k));
  jointRows[k] = { box, measured, target, error };
  return box;
}

function chooseJoint(k) {
  joint = k;
  jointRows.forEach(({ box }, other) => box.classList.toggle("now", other === k));
  const stand = facts.stand[k];
  jointChart.reset([{ name: facts.joints[k].replace("_joint", "").replace("_", " "), unit: "rad", low: stand - 0.2, high: stand + 0.2 }]);
}

const keys = new Set();
const releases = [];
let meanings = {};
function assignKeys() {
  for (const [field, [lower, higher, size]] of Object.entries(facts.steps)) {
    for (const key of lower) meanings[key] = { field, sign: -1, size };
    for (const key of higher) meanings[key] = { field, sign: 1, size };
  }
  for (const key of facts.halt) meanings[key] = { halt: true };
  for (const key of facts.level) meanings[key] = { level: true };
  for (const [request, names] of Object.entries(facts.requests)) for (const key of names) meanings[key] = { request };
  const shown = (lower, higher) => `${higher.join(" ")} / ${lower.join(" ")}`;
  fill($("keys"), list([
    ...Object.entries(facts.steps).map(([field, [lower, higher]]) => [`${NAMES[field]}${VELOCITY.includes(field) ? ", while held" : ""}`, shown(lower, higher)]),
    ["no velocity", facts.halt.join(" ")], ["level", facts.level.join(" ")],
    ...Object.entries(facts.requests).map(([request, names]) => [request.replace("_", " "), names.join(" ")]),
  ]).children);
  for (const button of document.querySelectorAll("[data-request]")) {
    button.append(node("kbd", facts.requests[button.dataset.request][0]));
  }
  $("stop").querySelector("kbd").textContent = facts.requests.emergency_stop.join(" ");
}

const keyOf = (event) => KEYS[event.key] || event.key.toLowerCase();

document.addEventListener("keydown", (event) => {
  const key = keyOf(event), meaning = meanings[key];
  if (!meaning || event.ctrlKey || event.metaKey || event.altKey) return;
  const onControl = event.target.closest("input, summary, button");
  if (meaning.request === "emergency_stop") {
    if (!event.repeat) emergencyStop();
  } else if (onControl && (event.key.startsWith("Arrow") && onControl.matches("input") || event.key === " " && !onControl.matches("input[type=range]"))) {
    return; // the control's own keys
  } else if (meaning.request) {
    if (!event.repeat) send(meaning.request);
  } else if (meaning.halt) releaseAll();
  else if (meaning.level) level();
  else if (VELOCITY.includes(meaning.field)) {
    keys.add(key);
    driveByKeys();
  } else {
    const [low, high] = facts.ranges[meaning.field];
    const value = driver.pose[meaning.field] + meaning.sign * meaning.size;
    driver.setPose({ [meaning.field]: Math.round(Math.max(low, Math.min(high, value)) * 1000) / 1000 });
  }
  event.preventDefault();
}, true);

document.addEventListener("keyup", (event) => {
  if (keys.delete(keyOf(event))) driveByKeys();
}, true);

function driveByKeys() {
  const fractions = {};
  for (const key of keys) fractions[meanings[key].field] = (fractions[meanings[key].field] || 0) + meanings[key].sign;
  driver.input("keys", fractions);
}

// ---- small things

function node(name, text = "", style = "") {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (style) made.className = style;
  return made;
}

function list(pairs) {
  const made = node("dl");
  for (const [name, value] of pairs) made.append(node("dt", name), node("dd", value));
  return made;
}

// Replaces the children where they differ, so that what is selected or open stays.
function fill(parent, children) {
  const made = [...children];
  if (parent.children.length === made.length && made.every((each, k) => each.isEqualNode(parent.children[k]))) return;
  parent.replaceChildren(...made);
}

async function begin() {
  facts = await (await fetch("/facts.json")).json();
  $("robot").textContent = document.title = facts.robot;
  document.body.classList.toggle("watching", facts.watch_only);
  driver = new Driver(facts.ranges, notify, facts.watch_only);
  scene = new Scene($("scene"), facts);
  velocityChart = new Chart($("velocity-chart"), VELOCITY.map((field) => ({ name: NAMES[field], unit: UNITS[field], low: -0.3, high: 0.3 })));
  jointChart = new Chart($("joint-chart"), []);
  for (const field of VELOCITY) addSlider($("velocities"), field, (value) => driver.hold(field, value));
  for (const field of POSE) addSlider($("poses"), field, (value) => driver.setPose({ [field]: value }));
  fill($("joints"), [0, 1, 2].flatMap((part) => facts.legs.map((_, leg) => part + 3 * leg)).map((k) => addJoint(facts.joints[k], k)));
  chooseJoint(joint);
  if (!facts.watch_only) assignKeys();
  releases.push(stick($("move"), (right, up) => driver.input("move", right === null ? null : { vx: up, vy: -right })));
  releases.push(stick($("turn"), (right) => driver.input("turn", right === null ? null : { yaw_rate: -right })));
  for (const button of document.querySelectorAll("[data-request]")) button.addEventListener("click", () => send(button.dataset.request));
  for (const choice of document.querySelectorAll("[name=speed]")) choice.addEventListener("change", () => { driver.speed = Number(choice.value); });
  $("halt").addEventListener("click", releaseAll);
  $("level").addEventListener("click", level);
  addEventListener("blur", releaseAll);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", connect);
  addEventListener("resize", () => scene.redraw());
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : connect()));
  document.addEventListener("freeze", leave);
  setInterval(watch, 100);
  connect();
}

// What a test in a browser looks at.
window.monitor = { get driver() { return driver; }, get scene() { return scene; }, get snapshot() { return latest; } };

begin().catch((error) => { notify(`the page cannot start (${error.message}); reload it`); });
