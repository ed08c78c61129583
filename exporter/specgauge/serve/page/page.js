// Draws /api/v1/status and /api/v1/guard; every text goes in as text, never as markup.
"use strict";

const SHOWN = [
  ["acceptance_ratio", "acceptance ratio", share],
  ["acceptance_length", "acceptance length", tokens],
  ["tokens_per_step", "tokens per step", tokens],
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

function share(value) { return (100 * value).toFixed(1) + " %"; }
function tokens(value) { return value.toFixed(2); }
function number(value) { return Number.isInteger(value) ? String(value) : value.toFixed(value < 100 ? 2 : 0); }
function time(value) { return value < 1 ? (1000 * value).toPrecision(3) + " ms" : value.toFixed(2) + " s"; }

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

const ANSWERS = { pays: ["Speculation pays", "good"], costs: ["Speculation costs", "bad"], even: ["Speculation makes no difference", "dim"], unknown: ["No verdict", "warn"] };

function times(value) { return value.toFixed(2) + "×"; }

function verdict(one) {
  const [answer, style] = ANSWERS[one.verdict];
  const line = element("p", undefined, "answer");
  line.append(element("strong", answer, style));
  let rest = " (" + one.reason.replaceAll("_", " ") + ")";
  if (one.speedup_ratio) {
    rest += ": each token comes " + times(one.speedup_ratio.concurrency) + " as fast as without";
    if (one.speedup_ratio_low) rest += ", between " + times(one.speedup_ratio_low.concurrency) + " and " + times(one.speedup_ratio_high.concurrency);
    rest += "; under the same arrivals " + times(one.speedup_ratio.throughput);
  }
  if ("breakeven_acceptance_length" in one) rest += "; break-even at an acceptance length of " + one.breakeven_acceptance_length.toFixed(2);
  line.append(rest + ".");
  return line;
}

function model(one) {
  const box = element("div");
  const head = element("h3", one.model_name + " ");
  const good = { active: "good", unknown: "warn", inactive: "warn" };
  const why = one.speculation_reason ? " (" + one.speculation_reason + ")" : "";
  head.append(element("span", "speculation " + one.speculation.replace("_", " ") + why, "state " + (good[one.speculation] || "dim")));
  box.append(head);
  if (one.verdict) box.append(verdict(one.verdict));
  const list = element("dl");
  for (const [field, label, write] of SHOWN) {
    if (field in one) list.append(figure(label, write(one[field])));
    else list.append(figure(label, one.absent[field].replaceAll("_", " "), "absent"));
  }
  if (one.position_acceptance_ratio) {
    list.append(figure("accepted by position", one.position_acceptance_ratio.map(share).join("  ")));
  }
  box.append(list);
  if (one.warnings.length) box.append(element("p", "Mind: " + one.warnings.join(", ").replaceAll("_", " "), "warn"));
  return box;
}

function target(one) {
  const box = element("section");
  const head = element("div", undefined, "head");
  head.append(element("h2", one.name));
  head.append(element("span", one.up ? "up" : one.result === null ? "not scraped yet" : "down", "state " + (one.up ? "good" : "bad")));
  const engine = [one.dialect, one.engine_version && "vLLM " + one.engine_version, one.role, one.method].filter(Boolean);
  head.append(element("span", engine.join(" · "), "dim"));
  box.append(head, element("p", one.url, "dim"));
  if (one.result !== null && one.result !== "ok") box.append(element("p", one.result + ": " + one.detail, "bad"));
  if (one.window_seconds) box.append(element("p", "over the last " + one.window_seconds.toFixed(0) + " s", "dim"));
  for (const each of one.models) box.append(model(each));
  if (one.result === "ok" && !one.models.length) box.append(element("p", "Waiting for a second page.", "dim"));
  return box;
}

const PHASES = { active: "good", probing: "warn", starting: "dim", fallback: "bad", latched: "bad", override: "warn" };

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
  const box = element("section");
  const head = element("div", undefined, "head");
  head.append(element("h2", "Guard"));
  head.append(element("span", one.state, "state " + PHASES[one.state]));
  const flag = { true: "on", false: "off", null: "unknown" };
  const confirmed = one.flag.confirmed === one.flag.desired ? "confirmed" : "not confirmed (" + flag[one.flag.confirmed] + ")";
  head.append(element("span", "flag " + flag[one.flag.desired] + ", " + confirmed + " · " + one.flag.backend + " · " + one.flag.place, "dim"));
  box.append(head, element("p", one.says));
  const past = one.history.slice(-5).reverse();
  if (past.length) {
    const list = element("ul");
    list.append(...past.map(change));
    box.append(list);
  }
  return box;
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error("HTTP " + answer.status);
  return answer.json();
}

async function draw() {
  const about = document.getElementById("about");
  try {
    const [status, guarded] = await Promise.all([ask("api/v1/status"), ask("api/v1/guard")]);
    const guards = guarded.state === null ? [] : [guard(guarded)];
    document.getElementById("targets").replaceChildren(...status.targets.map(target), ...guards);
    about.textContent = status.version + (status.config_last_reload_success ? "" : " · the last reload of the configuration was refused");
    about.className = status.config_last_reload_success ? "" : "bad";
  } catch (problem) {
    about.textContent = "The sidecar does not answer: " + problem.message;
    about.className = "bad";
  }
  setTimeout(draw, 2000);
}

draw();
