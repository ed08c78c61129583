// Follows the sidecar's event stream and fills the page; every text goes in as text, never as markup.
"use strict";

const byId = id => document.getElementById(id);
const { element } = Tables;
const FIGURES = [
  ["acceptance_ratio", "acceptance ratio", Words.share],
  ["acceptance_length", "acceptance length", value => value.toFixed(2)],
  ["draft_coverage_ratio", "draft coverage", Words.share],
  ["tpot_seconds", "time per output token", Words.time],
  ["step_seconds", "time per step", Words.time],
  ["ttft_seconds", "time to first token", Words.time],
  ["e2e_seconds", "request end to end", Words.time],
  ["decode_concurrency", "requests in decode", Words.number],
  ["generation_tokens_per_second", "tokens per second", Words.number],
  ["requests_running", "running", Words.number],
  ["requests_waiting", "waiting", Words.number],
  ["kv_cache_usage_ratio", "KV cache in use", Words.share],
  ["num_speculative_tokens", "draft positions (K)", Words.number],
];
const PHASES = { active: "good", probing: "warn", starting: "dim", fallback: "bad", latched: "bad", override: "warn" };
const MOST_POINTS = 6000;
const SILENT_MS = 15000;  // the sidecar beats every five seconds, if only to say that it is there
const CLASSES_MS = 5000;

function figure(label, text, style) {
  const box = element("div");
  box.append(element("dt", label), element("dd", text, style));
  return box;
}

// What was shown of each model: key -> {columns -> points}, the oldest first.
const memory = new Map();
let picture = null, chosen = null, span = 900, heard = 0, stream = null, ahead = -Infinity;
const keyOf = (target, model) => JSON.stringify([target, model]);
const now = () => Date.now() / 1000 + (ahead > -Infinity ? ahead : 0);  // by the sidecar's clock

function remember(trend, anew) {
  for (const one of trend.series) {
    const key = keyOf(one.target, one.model_name);
    const points = one.points.map(row => Object.fromEntries(trend.columns.map((name, at) => [name, row[at]])));
    const first = points.length ? points[0].unix : Infinity;
    const before = anew ? [] : (memory.get(key) || []).filter(point => point.unix < first);
    memory.set(key, [...before, ...points].slice(-MOST_POINTS));
  }
}

function models() {
  return picture.status.targets.flatMap(target => target.models.map(model => ({ target, model, key: keyOf(target.name, model.model_name) })));
}

function choose() {
  const all = models();
  const speculating = all.find(one => one.target.role === "speculative") || all[0];
  if (!all.some(one => one.key === chosen) && speculating) { chosen = speculating.key; read(); }
  const which = byId("which");
  const keys = all.map(one => one.key);
  if (JSON.stringify(keys) !== which.dataset.keys) {
    which.dataset.keys = JSON.stringify(keys);
    which.replaceChildren(...all.map(one => {
      const made = element("option", one.target.name + " · " + one.model.model_name);
      made.value = one.key;
      return made;
    }));
    byId("choose").hidden = all.length < 2;
  }
  which.value = chosen;
  return all.find(one => one.key === chosen);
}

function silence(targets) {
  const down = targets.filter(Tables.isDown);
  if (down.length) return down[0].name + (down.length > 1 ? " and " + (down.length - 1) + " more do" : " does") + " not answer: " + Words.words(down[0].result) + ".";
  return targets.some(target => target.up) ? "The server answers and has served nothing yet." : "Waiting for the first scrapes.";
}

function sentence(one, targets) {
  const [answer, style, rest, code] = one ? Words.sentence(one.model, one.target, picture.guard) : ["", "", silence(targets), ""];
  const line = byId("sentence");
  if (line.textContent !== answer + rest + (code && " " + code)) line.replaceChildren(...(answer ? [element("strong", answer, style)] : []), rest, ...(code ? [" ", element("small", code, "dim")] : []));
  // A live region speaks whenever it changes, so it holds what rarely does.
  const name = one ? one.target.name : "";
  const spoken = one ? name + ": " + answer + "." + (picture.guard.state === null ? "" : " The guard is " + picture.guard.state + ".") : rest;
  if (byId("spoken").textContent !== spoken) byId("spoken").textContent = spoken;
  document.title = (name ? name + " · " : "") + "specgauge";
}

function figures(one) {
  byId("figures").replaceChildren(...(one ? FIGURES : []).map(([field, label, write]) =>
    field in one ? figure(label, write(one[field])) : figure(label, Words.words(one.absent[field] || "not known"), "absent")));
  const told = (one && one.verdict) || {};
  const mind = one ? [...new Set([...one.warnings, ...(told.warnings || []), ...(told.extrapolated ? ["load above the baseline's highest level"] : [])])].map(Words.words) : [];
  byId("mind").hidden = !mind.length;
  byId("mind").textContent = "Mind: " + mind.join(", ") + ".";
}

function change(one) {
  const line = element("li"), state = one.would_be || one.state;
  line.append(element("span", Words.ago(now() - one.unix), "dim"), " ");
  line.append(element("strong", one.would_be ? "would be " + state : state, PHASES[state]), ": " + one.says);
  return line;
}

function flagRows(one) {
  const read = { true: "on", false: "off", null: "unknown" };
  const flag = one.flag, odd = flag.confirmed !== flag.desired;
  const rows = [
    figure("flag wanted", read[flag.desired]),
    figure("flag confirmed", read[flag.confirmed] + (odd && flag.pending_since ? ", since " + Words.wall(flag.pending_since) : ""), odd ? "warn" : ""),
    figure("where it is", flag.backend + " · " + flag.place),
    figure("what obeys it", flag.obeyed_by || "not said (flag.obeyed_by)", flag.obeyed_by ? "" : "absent"),
  ];
  if (one.override) rows.unshift(figure("overridden", one.override.mode + (one.override.until ? " until " + Words.wall(one.override.until) : " until changed") + (one.override.reason ? ": " + one.override.reason : ""), "warn"));
  if (one.next_probe) rows.push(figure("next probe", Words.wall(one.next_probe)));
  if (flag.last_error) rows.push(figure("last error", flag.last_error, "bad"));
  return rows;
}

function guard(one) {
  const has = one.state !== null, phase = byId("phase");
  byId("operate").hidden = !has;
  phase.textContent = has ? one.state + (one.dry_run ? ", dry run" : "") + (one.frozen ? ", frozen" : "") : "none";
  phase.className = "state " + (PHASES[one.state] || "dim");
  byId("says").textContent = has ? one.says : "No guard is configured: nothing is turned on or off.";
  byId("flag").replaceChildren(...(has ? flagRows(one) : []));
  byId("past").replaceChildren(...(has ? one.history.slice(-5).reverse().map(change) : []));
  for (const button of document.querySelectorAll("#operate button")) button.disabled = !picture.acting;
  const idle = "The buttons need a token: set token_file.";
  if (!picture.acting) tell(idle, "dim");
  else if (byId("told").textContent === idle) tell("", "");
}

const draw = { speedup: Charts.speedup(), tpot: Charts.tpot(), steps: Charts.steps(), positions: Charts.positions() };

function show() {
  if (!picture) return;
  const status = picture.status, good = status.config_last_reload_success;
  byId("about").textContent = status.version + (good ? "" : " · the last reload of the configuration was refused");
  byId("about").className = good ? "dim" : "bad";
  const one = choose();
  sentence(one, status.targets);
  figures(one && one.model);
  const since = now() - span;
  const points = ((one && memory.get(one.key)) || []).filter(point => point.unix >= since);
  draw.speedup(points);
  draw.tpot(points);
  draw.steps(points);
  draw.positions((one && one.model.position_acceptance_ratio) || [], one ? one.model.absent.position_acceptance_ratio : undefined);
  byId("targets").replaceChildren(Tables.servers(status.targets, picture.guard));
  guard(picture.guard);
}

function linked(text, style) {
  const link = byId("link");
  if (link.textContent !== text) link.textContent = text;
  link.className = "state " + style;
  const lost = style === "bad" && picture !== null;
  document.body.classList.toggle("lost", lost);
  if (lost && byId("old").hidden) byId("old").textContent = "The sidecar does not answer. Everything here is of " + new Date().toLocaleTimeString() + " or before.";
  byId("old").hidden = !lost;
}

async function read() {
  const [target, model] = chosen ? JSON.parse(chosen) : [];
  if (target === undefined) return;
  try {
    const answer = await fetch("api/v1/trend?" + new URLSearchParams({ target, model_name: model }));
    if (answer.ok) { remember(await answer.json(), true); show(); }
  } catch { /* the stream says that there is no connection */ }
}

async function classes() {
  if (!stream || !picture) return;
  byId("classes").hidden = picture.classes === "off";
  if (picture.classes === "off") return;
  try {
    const answer = await fetch("api/v1/classes");
    if (!answer.ok) return;
    const found = await answer.json(), followed = found.log.state === "followed";
    byId("log").textContent = followed ? "Since " + new Date(1000 * found.since).toLocaleString() + ", from the router's access log." + (found.classes.length ? "" : " No request so far.") : "The router's access log is " + Words.words(found.log.state) + ".";
    byId("log").className = followed || found.log.state === "starting" ? "dim" : "bad";
    byId("pools").hidden = !found.classes.length;
    byId("pools").replaceChildren(Tables.classes(found));
  } catch { /* the same */ }
}

let pending = false;
function take(event) {
  heard = performance.now();
  const first = picture === null;
  picture = JSON.parse(event.data);
  ahead = Math.max(ahead, ...picture.status.targets.map(one => (one.last_scrape_success_timestamp_seconds || 0) - Date.now() / 1000));
  remember(picture.trend, false);
  if (first) classes();
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; show(); });
}

function follow() {
  if (stream) stream.close();
  const mine = new EventSource("api/v1/events");
  stream = mine;
  heard = performance.now();
  mine.addEventListener("open", () => { linked("live", "good"); read(); });
  mine.addEventListener("beat", () => { heard = performance.now(); });
  mine.addEventListener("picture", take);
  mine.addEventListener("error", () => {
    linked("no connection", "bad");
    if (!picture) byId("sentence").textContent = "The sidecar does not answer, or too many pages are open: this one tries again.";
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (stream === mine) follow(); }, 5000);  // refused, as when too many pages are open
  });
}

// A browser has six connections for all its pages of one sidecar: only those in sight hold one.
function attend() {
  if (document.visibilityState === "visible") { if (!stream) follow(); return; }
  if (stream) stream.close();
  stream = null;
  linked("paused", "dim");
}

function tell(text, style) {
  if (byId("told").textContent !== text) byId("told").textContent = text;
  byId("told").className = style;
}

async function order(mode) {
  const token = byId("token").value.trim(), length = byId("for").value.trim();
  if (!token) { byId("token").focus(); return tell("The token of token_file is needed.", "bad"); }
  if (!/^[\x20-\x7e]+$/.test(token)) return tell("That is no token: a token is ASCII.", "bad");
  const body = { mode, reason: byId("why").value };
  if (length && mode !== "auto") body.for = length;
  const lasting = length ? " for " + length : " until changed";
  const done = { off: "speculation off" + lasting, on: "speculation on" + lasting, auto: "left to the guard", probe: "a probe is due" }[mode];
  tell("Asking…", "dim");
  try {
    const path = mode === "probe" ? "api/v1/guard/probe" : "api/v1/guard/override";
    const answer = await fetch(path, { method: "POST", headers: { Authorization: "Bearer " + token }, body: mode === "probe" ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10000) });
    const text = (await answer.text()).trim();
    if (answer.ok) tell("Done: " + done + ", with the next scrape.", "good");
    else tell("Refused: " + (answer.status === 401 ? "that is not the token of token_file." : text), "bad");
  } catch {
    tell("The sidecar does not answer; nothing is known to have changed.", "bad");
  }
}

byId("which").addEventListener("change", event => { chosen = event.target.value; show(); read(); });
byId("span").addEventListener("change", event => { span = Number(event.target.value); show(); });
byId("operate").addEventListener("submit", event => event.preventDefault());
byId("operate").addEventListener("click", event => { if (event.target.value && event.target.type === "button") order(event.target.value); });
byId("operate").addEventListener("keydown", event => { if (event.key === "Enter" && event.target.type !== "button") { event.preventDefault(); tell("Press one of the buttons.", "dim"); } });
document.addEventListener("visibilitychange", attend);
setInterval(() => { if (stream && performance.now() - heard > SILENT_MS) { linked("no connection", "bad"); follow(); } }, 1000);
setInterval(classes, CLASSES_MS);
setInterval(() => { if (stream) read(); }, 600000);
for (const hidden of [document.querySelector("main"), byId("span"), byId("link")]) hidden.hidden = false;
attend();
