// Follows the sidecar's event stream and fills the page; every text goes in as text, never as markup.
"use strict";

const byId = id => document.getElementById(id);
const FIGURES = [
  ["acceptance_ratio", "acceptance ratio", share],
  ["acceptance_length", "acceptance length", tokens],
  ["draft_coverage_ratio", "draft coverage", share],
  ["tpot_seconds", "time per output token", time],
  ["step_seconds", "time per step", time],
  ["ttft_seconds", "time to first token", time],
  ["e2e_seconds", "request end to end", time],
  ["decode_concurrency", "requests in decode", number],
  ["generation_tokens_per_second", "tokens per second", number],
  ["requests_running", "running", number],
  ["requests_waiting", "waiting", number],
  ["kv_cache_usage_ratio", "KV cache in use", share],
  ["num_speculative_tokens", "draft positions (K)", number],
];
const ANSWERS = { pays: ["Speculation pays", "good"], costs: ["Speculation costs", "bad"], even: ["Speculation makes no difference", "dim"], unknown: ["No verdict", "warn"] };
const PHASES = { active: "good", probing: "warn", starting: "dim", fallback: "bad", latched: "bad", override: "warn" };
const WHOLE_DAY = 86400;
const MOST_POINTS = 6000;

function share(value) { return (100 * value).toFixed(1) + " %"; }
function tokens(value) { return value.toFixed(2); }
function number(value) { return Number.isInteger(value) ? String(value) : value.toFixed(value < 100 ? 2 : 0); }
function time(value) { return value < 1 ? (1000 * value).toPrecision(3) + " ms" : value.toFixed(2) + " s"; }
function words(code) { return code.replaceAll("_", " "); }

function element(name, text, style) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
}

function figure(label, text, style) {
  const box = element("div");
  box.append(element("dt", label), element("dd", text, style));
  return box;
}

// What was shown of each model: key -> {columns -> points}, the oldest first.
const memory = new Map();
let picture = null, chosen = null, span = 900;
const keyOf = (target, model) => JSON.stringify([target, model]);

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
  if (!all.some(one => one.key === chosen)) chosen = speculating ? speculating.key : null;
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

function sentence(one) {
  const line = byId("sentence");
  const told = one.verdict;
  if (!told) {
    const state = words(one.speculation) + (one.speculation_reason ? " (" + words(one.speculation_reason) + ")" : "");
    say(line, "Speculation is " + state + ". Without a baseline nobody knows whether it pays.");
    return;
  }
  const [answer, style] = ANSWERS[told.verdict];
  let rest = " (" + words(told.reason) + ")";
  if (told.speedup_ratio) {
    rest += ": each token comes " + Charts.times(told.speedup_ratio.concurrency) + " as fast as without";
    if (told.speedup_ratio_low) rest += ", between " + Charts.times(told.speedup_ratio_low.concurrency) + " and " + Charts.times(told.speedup_ratio_high.concurrency);
    rest += "; under the same arrivals " + Charts.times(told.speedup_ratio.throughput);
  }
  if ("breakeven_acceptance_length" in told) rest += "; break-even at an acceptance length of " + told.breakeven_acceptance_length.toFixed(2);
  say(line, rest + ".", answer, style);
}

// A live region speaks when it changes: it is only touched when it says something else.
function say(line, rest, strong, style) {
  const whole = (strong || "") + rest;
  if (line.textContent === whole) return;
  line.replaceChildren(...(strong ? [element("strong", strong, style)] : []), rest);
}

function figures(one) {
  byId("figures").replaceChildren(...FIGURES.map(([field, label, write]) =>
    field in one ? figure(label, write(one[field])) : figure(label, words(one.absent[field] || "not known"), "absent")));
  const mind = [...one.warnings, ...(one.verdict ? one.verdict.warnings || [] : [])];
  byId("mind").hidden = !mind.length;
  byId("mind").textContent = "Mind: " + [...new Set(mind)].map(words).join(", ");
}

function servers() {
  const made = element("table");
  made.append(element("caption", "Scraped servers and how the last scrape went"));
  const top = made.createTHead().insertRow();
  for (const name of ["server", "health", "engine", "speculation"]) {
    const cell = element("th", name);
    cell.scope = "col";
    top.append(cell);
  }
  const body = made.createTBody();
  for (const one of picture.status.targets) {
    const row = body.insertRow();
    row.insertCell().append(element("strong", one.name), element("div", one.url, "dim"));
    const health = one.result === null ? "not scraped yet" : one.up ? "up" : words(one.result);
    row.insertCell().append(element("span", health, one.up ? "good" : "bad"), element("div", one.up ? "" : one.detail, "dim"));
    row.insertCell().textContent = [one.dialect, one.engine_version && "vLLM " + one.engine_version, one.role, one.method].filter(Boolean).join(" · ");
    row.insertCell().textContent = one.models.map(model => model.model_name + ": " + words(model.speculation)).join("; ") || "no model seen yet";
  }
  byId("targets").replaceChildren(made);
}

function ago(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [length, name] = units.find(([one]) => seconds >= one) || [1, "s"];
  return Math.max(0, Math.round(seconds / length)) + " " + name + " ago";
}

function change(one) {
  const line = element("li");
  line.append(element("span", ago(Date.now() / 1000 - one.unix), "dim"), " ");
  line.append(element("strong", one.would_be ? "would be " + one.would_be : one.state, PHASES[one.would_be || one.state]));
  line.append(": " + one.says);
  return line;
}

function guard(one) {
  const has = one.state !== null;
  byId("operate").hidden = !has;
  const phase = byId("phase");
  phase.textContent = has ? one.state + (one.dry_run ? ", dry run" : "") + (one.frozen ? ", frozen" : "") : "none";
  phase.className = "state " + (PHASES[one.state] || "dim");
  byId("says").textContent = one.says;
  if (!has) { byId("flag").replaceChildren(); byId("past").replaceChildren(); return; }
  const read = { true: "on", false: "off", null: "unknown" };
  const flag = one.flag;
  const rows = [
    figure("flag wanted", read[flag.desired]),
    figure("flag confirmed", read[flag.confirmed], flag.confirmed === flag.desired ? "" : "warn"),
    figure("where it is", flag.backend + " · " + flag.place),
    figure("what obeys it", flag.obeyed_by || "not said (flag.obeyed_by)", flag.obeyed_by ? "" : "absent"),
  ];
  if (one.next_probe) rows.push(figure("next probe", new Date(1000 * one.next_probe).toLocaleTimeString()));
  if (flag.last_error) rows.push(figure("last error", flag.last_error, "bad"));
  byId("flag").replaceChildren(...rows);
  byId("past").replaceChildren(...one.history.slice(-5).reverse().map(change));
}

const draw = { speedup: Charts.speedup(), tpot: Charts.tpot(), steps: Charts.steps(), positions: Charts.positions() };

function show() {
  if (!picture) return;
  const status = picture.status;
  byId("about").textContent = status.version + (status.config_last_reload_success ? "" : " · the last reload of the configuration was refused");
  byId("about").className = status.config_last_reload_success ? "dim" : "bad";
  const one = choose();
  if (one) { sentence(one.model); figures(one.model); }
  else {
    const down = status.targets.filter(target => target.result !== null && !target.up);
    say(byId("sentence"), down.length ? down[0].name + " does not answer: " + words(down[0].result) + "." : "Waiting for the first scrapes.");
    byId("figures").replaceChildren();
  }
  const since = Date.now() / 1000 - span;
  const points = ((one && memory.get(one.key)) || []).filter(point => point.unix >= since);
  draw.speedup(points);
  draw.tpot(points);
  draw.steps(points);
  draw.positions((one && one.model.position_acceptance_ratio) || []);
  servers();
  guard(picture.guard);
}

function linked(good, text) {
  const link = byId("link");
  if (link.textContent !== text) link.textContent = text;
  link.className = "state " + (good ? "good" : "bad");
}

async function read() {
  const answer = await fetch("api/v1/trend?since=" + (Date.now() / 1000 - WHOLE_DAY));
  if (answer.ok) { remember(await answer.json(), true); show(); }
}

let pending = false;
function follow() {
  const stream = new EventSource("api/v1/events");
  stream.addEventListener("open", () => { linked(true, "live"); read().catch(() => {}); });
  stream.addEventListener("error", () => {
    linked(false, "no connection");
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 5000);  // refused, as when too many pages are open
  });
  stream.addEventListener("picture", event => {
    picture = JSON.parse(event.data);
    remember(picture.trend, false);
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; show(); });
  });
}

byId("which").addEventListener("change", event => { chosen = event.target.value; show(); });
byId("span").addEventListener("change", event => { span = Number(event.target.value); show(); });
byId("operate").addEventListener("submit", async event => {
  event.preventDefault();
  const mode = event.submitter.value, told = byId("told");
  const body = { mode, reason: byId("why").value };
  if (byId("for").value.trim() && mode !== "auto") body.for = byId("for").value.trim();
  const path = mode === "probe" ? "api/v1/guard/probe" : "api/v1/guard/override";
  const headers = { Authorization: "Bearer " + byId("token").value };
  told.textContent = "Asking…";
  try {
    const answer = await fetch(path, { method: "POST", headers, body: mode === "probe" ? undefined : JSON.stringify(body) });
    const text = (await answer.text()).trim();
    told.textContent = answer.ok ? "Done: it takes effect with the next scrape." : "Refused: " + text;
    told.className = answer.ok ? "good" : "bad";
  } catch (problem) {
    told.textContent = "The sidecar does not answer: " + problem.message;
    told.className = "bad";
  }
});
setInterval(() => { read().catch(() => {}); }, 600000);
follow();
