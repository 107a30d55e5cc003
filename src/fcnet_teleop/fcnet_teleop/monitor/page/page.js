// The monitor's page: snapshots and status come as server-sent events, commands go out as requests.
import { Plots, plotSets } from "./chart.js";
import { Driver, POSE, STYLE, VELOCITY, stick } from "./driver.js";
import { CAMERAS, Scene } from "./scene.js";

const LATE = 500; // [ms] without a snapshot after which nothing is driven
const ANSWER = 1000; // [ms] in which the monitor answers a request, and after which it refuses one that comes late
const STOP_REPEAT = 200; // [ms] between two emergency stops while none has arrived
const LOST = 2000; // [ms] without anything from the monitor after which its status no longer holds
const PLOT_PERIOD = 60; // [ms] between two drawings of the plots
const DESCRIPTION_PERIOD = 2000; // [ms] between two texts in place of the pictures
const STYLE_DELAY = 2500; // [ms] until a change of the stride is in the controller's diagnostics
const NAMES = { vx: "forward", vy: "left", yaw_rate: "turn left", height: "height", roll: "lean right", pitch: "nose down",
  width: "stance", clearance: "foot lift", frequency: "stride rate" };
const UNITS = { vx: "m/s", vy: "m/s", yaw_rate: "rad/s", height: "m", roll: "rad", pitch: "rad", width: "%", clearance: "cm", frequency: "Hz" };
const SCALES = { width: 100, clearance: 100 }; // from SI to the unit
const PARAMETERS = { width: "stance_width", clearance: "foot_clearance", frequency: "stride_frequency" }; // in the diagnostics
const MODES = { walking: "good", standing: "good", standing_up: "warn", lying_down: "warn", recovering: "warn", passive: "quiet", fault: "bad", unknown: "bad" };
const BUTTON_OF_MODE = { standing_up: "stand_up", standing: "stand_up", walking: "walk", lying_down: "lie_down", recovering: "recover" };
const KEYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", Escape: "escape", " ": "space" };

const $ = (id) => document.getElementById(id);
let driver, scene, plots, facts;
let source = null, latest = null, shown = null, arrived = 0, responses = null;
let arrivals = [];
let status = null, contact = performance.now(), refusal = ""; // what the monitor said last, when [ms], and why it refuses
let plotted = 0, described = 0; // [ms]

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
      const response = await fetch("/request/emergency_stop", { method: "POST", keepalive: true, signal: AbortSignal.timeout(ANSWER) });
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
    const body = JSON.stringify({ seen: driver.seen });
    const response = await fetch(`/request/${request}`, { method: "POST", body, signal: AbortSignal.timeout(ANSWER) });
    if (!response.ok) notify((await response.json()).message);
  } catch {
    notify("the monitor does not respond: look at the robot, and send it again once the picture moves");
  }
}

// cut: why the robot has been stopped.
function notify(message, cut = false) {
  $("message").textContent = message;
  $("message").classList.toggle("cut", cut);
}

// Take everything back that is held; where that stops the robot, say why.
function cutDrive(reason) {
  if (driver.velocity().some((value) => value !== 0)) notify(`the robot is stopped: ${reason}`, true);
  releaseAll();
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
    arrived = contact = performance.now();
    driver.seen = latest.t;
    arrivals.push(arrived);
    while (arrivals[0] < arrived - 2000) arrivals.shift();
    requestAnimationFrame(show);
  });
  source.addEventListener("status", (event) => {
    contact = performance.now();
    refusal = "";
    showStatus(JSON.parse(event.data));
  });
  source.addEventListener("ground", (event) => scene.setGround(JSON.parse(event.data)));
  source.addEventListener("error", async () => {
    if (!source || source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    disconnect();
    setTimeout(connect, 1000);
    const response = await fetch("/facts.json").catch(() => null);
    refusal = response && !response.ok ? (await response.json()).message : "";
  });
  driver.sendZero();
}

function disconnect() {
  source?.close();
  source = null;
}

// Hidden, closed or left: nothing moves by this page any more.
function leave() {
  cutDrive("this page was left or hidden");
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
  plots.add(latest);
  const now = performance.now();
  if (now - plotted > PLOT_PERIOD) {
    plotted = now;
    plots.draw();
  }
  const { source } = latest;
  if (facts.higher.includes(source) && driver.velocity().some((value) => value !== 0)) {
    cutDrive(`${source} drives it now, and has priority`);
  }
  $("problem").hidden = !latest.problem;
  $("problem").textContent = latest.problem;
  $("source").textContent = source ? ` by ${source}` : "";
}

function showStatus(next) {
  status = next;
  const moving = driver.velocity().some((value) => value !== 0);
  if (moving && status.lost) cutDrive("the controller does not respond");
  else if (moving && status.mode === "fault") cutDrive("it is in fault; remove the cause, then reset");
  else if (moving && status.mode && status.mode !== "walking") notify(`the robot is ${words(status.mode)}: it follows when it walks`);
  if (responses !== null && status.response_count > responses) notify(status.responses[status.responses.length - 1]);
  responses = status.response_count;
  showFaults();
  showDiagnostics(status.statuses);
}

// Mode and faults; without the monitor nothing is known of them.
function showFaults() {
  const away = performance.now() - contact > LOST;
  const mode = away ? "unknown" : status ? status.mode : "";
  $("mode").textContent = mode ? words(mode) : "no controller";
  $("mode").className = `pill ${MODES[mode] || "quiet"}`;
  for (const button of document.querySelectorAll("[data-request]")) {
    button.classList.toggle("now", BUTTON_OF_MODE[mode] === button.dataset.request);
  }
  document.body.classList.toggle("lost", away || Boolean(status && status.lost));
  const faults = status && !away ? status.faults : [];
  const contactLost = "lost contact with the monitor: what you see is old, and this page commands nothing; it connects again by itself";
  fill($("faults"), (away ? [refusal || contactLost] : faults).map((fault) => node("p", fault)));
  $("faults").hidden = !away && faults.length === 0;
}

const words = (mode) => mode.replace("_", " ");

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
  const style = statuses.find((status) => PARAMETERS.width in status.values);
  if (!style || performance.now() - driver.styledAt < STYLE_DELAY) return;
  for (const field of STYLE) driver.style[field] = Number(style.values[PARAMETERS[field]]) || 0;
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
    cutDrive(`lost contact for ${(silence / 1000).toFixed(1)} s; let go, and drive again when the picture moves`);
  }
  showFaults();
  if (document.hidden) return;
  const age = latest && latest.age !== null ? `${Math.round(1000 * latest.age)} ms` : "none";
  const trip = driver.roundTrip === null ? [] : [["command round trip", `${Math.round(driver.roundTrip)} ms`]];
  fill($("timing"), list([["newest state", age], ...trip, ...timing]).children);
  showSliders();
  describe();
}

// What the pictures show, for those who do not see them.
function describe() {
  if (performance.now() - described < DESCRIPTION_PERIOD) return;
  described = performance.now();
  const [forward, left, turn] = (latest && latest.measured) || [];
  const moves = forward === undefined ? "" : `, moving ${forward.toFixed(1)} m/s forward, ${left.toFixed(1)} m/s left, turning ${turn.toFixed(1)} rad/s`;
  const [height, roll, pitch] = (latest && latest.body) || [];
  const trunk = Number.isFinite(height) ? `, trunk ${height.toFixed(2)} m high` : "";
  const body = Number.isFinite(roll) ? `${trunk}, roll ${roll.toFixed(2)}, pitch ${pitch.toFixed(2)} rad` : ", attitude unknown";
  $("scene").ariaLabel = `${facts.robot}, ${$("mode").textContent}${moves}${body}`;
  $("chart").ariaLabel = plots.describe();
}

// ---- controls

const sliders = {};
function addSlider(parent, field, changed) {
  const [low, high] = facts.ranges[field];
  if (low === high) return; // a setpoint that this robot lacks
  const input = node("input");
  Object.assign(input, { type: "range", min: low, max: high, step: field === "clearance" ? 0.005 : 0.01, value: 0, id: field });
  const label = node("label", NAMES[field]), output = node("output"), row = node("div", "", "slider");
  label.htmlFor = field;
  output.htmlFor = field;
  input.addEventListener("input", () => {
    changed(Math.abs(input.value) < 0.02 * (high - low) ? 0 : Number(input.value)); // a detent at zero
    showSliders();
  });
  row.append(label, input, output);
  parent.append(row);
  sliders[field] = { input, output };
}

function showSliders() {
  const velocity = driver.velocity();
  const values = { ...Object.fromEntries(VELOCITY.map((field, k) => [field, velocity[k]])), ...driver.pose, ...driver.style };
  for (const [field, { input, output }] of Object.entries(sliders)) {
    const value = values[field], scale = SCALES[field] || 1;
    if (document.activeElement !== input || Number(input.value) !== value) input.value = value;
    const text = `${value < 0 ? "−" : "+"}${Math.abs(scale * value).toFixed(scale === 1 ? 2 : 1)} ${UNITS[field]}`;
    if (output.textContent !== text) output.textContent = input.ariaValueText = text;
  }
}

function addPlots() {
  const sets = plotSets(facts, NAMES, UNITS);
  plots = new Plots($("chart"), sets, (time) => { $("cursor").textContent = time === null ? "" : `at −${Math.abs(time).toFixed(2)} s`; });
  fill($("sets"), Object.entries(sets).map(([name, { label }], k) => {
    const choice = node("label"), input = node("input");
    Object.assign(input, { type: "radio", name: "set", value: name, checked: k === 0 });
    input.addEventListener("change", () => choosePlots(sets, name));
    choice.append(input, label);
    return choice;
  }));
  new ResizeObserver(() => { plots.fit(); plots.draw(); }).observe($("chart-box"));
  $("pause").addEventListener("click", () => {
    const paused = $("pause").getAttribute("aria-pressed") !== "true";
    $("pause").setAttribute("aria-pressed", paused);
    $("pause").textContent = paused ? "Go on" : "Pause";
    plots.pause(paused);
  });
}

function choosePlots(sets, name) {
  const units = new Set(sets[name].panels.map(({ unit }) => unit));
  $("unit").textContent = units.size === 1 && !units.has("") ? `in ${[...units]}` : "";
  plots.show(name);
  described = 0;
}

function addCameras() {
  const button = (text, label, act) => {
    const made = node("button", text);
    made.ariaLabel = label;
    made.addEventListener("click", act);
    return made;
  };
  $("cameras").append(
    ...Object.keys(CAMERAS).map((camera) => button(camera, `camera: ${camera}`, () => scene.choose(camera))),
    button("+", "zoom in", () => scene.zoom(1 / 1.2)), button("−", "zoom out", () => scene.zoom(1.2)));
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
  if (event.key.startsWith("Arrow") && event.target.closest(".stick")) return; // the stick's own keys
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
  if (location.search) history.replaceState(null, "", location.pathname); // the token is in a cookie now
  const response = await fetch("/facts.json");
  facts = await response.json();
  if (!response.ok) throw new Error(facts.message);
  $("robot").textContent = document.title = facts.robot;
  document.body.classList.toggle("watching", facts.watch_only);
  driver = new Driver(facts.ranges, notify, facts.watch_only);
  scene = new Scene($("scene"), facts);
  addCameras();
  addPlots();
  for (const field of VELOCITY) addSlider($("velocities"), field, (value) => driver.hold(field, value));
  for (const field of POSE) addSlider($("poses"), field, (value) => driver.setPose({ [field]: value }));
  for (const field of STYLE) addSlider($("styles"), field, (value) => driver.setStyle(field, value));
  if (!facts.watch_only) assignKeys();
  releases.push(stick($("move"), (right, up) => driver.input("move", right === null ? null : { vx: up, vy: -right })));
  releases.push(stick($("turn"), (right) => driver.input("turn", right === null ? null : { yaw_rate: -right })));
  for (const button of document.querySelectorAll("[data-request]")) button.addEventListener("click", () => send(button.dataset.request));
  for (const choice of document.querySelectorAll("[name=speed]")) choice.addEventListener("change", () => { driver.speed = Number(choice.value); });
  $("halt").addEventListener("click", releaseAll);
  $("level").addEventListener("click", level);
  addEventListener("blur", () => cutDrive("this window is no longer the one in use"));
  addEventListener("pagehide", leave);
  addEventListener("pageshow", connect);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return leave();
    contact = performance.now(); // nothing has come because nothing was asked for
    connect();
  });
  document.addEventListener("freeze", leave);
  setInterval(watch, 100);
  connect();
}

// What a test in a browser looks at.
window.monitor = { get driver() { return driver; }, get scene() { return scene; }, get plots() { return plots; }, get snapshot() { return latest; } };

begin().catch((error) => { notify(`the page cannot start (${error.message}); reload it`); });
