// Numbers as text, and the verdict as a sentence for somebody who has never heard of it.
"use strict";

const Words = (() => {
  const ANSWERS = { pays: ["Speculation pays", "good"], costs: ["Speculation costs", "bad"], even: ["Speculation makes no difference", "dim"], unknown: ["No verdict", "warn"] };
  const WHY_NOT = {
    no_baseline: "no baseline belongs to this server, so there is nothing to compare with; specgauge baseline record makes one",
    baseline_mismatch: "the baseline is of another server; record one on this",
    too_few_tokens: "too little was generated in the last seconds to tell",
    outside_baseline_range: "the load is above what the baseline was recorded at; record higher levels",
    workload_mismatch: "prompts or answers are of another length than the baseline's; record one with prompts like these",
    uneven_load: "the load came and went within single scrapes, which reads as a loss; scrape more often",
    interval_too_wide: "the last seconds differ too much to tell",
  };
  const QUIET = {
    absent: "This server does not speculate",
    not_speculative: "This server does not speculate",
    inactive: "Speculation is not drafting now",
    off: "Speculation is off",
  };

  const words = code => code.replaceAll("_", " ");
  const share = value => (100 * value).toFixed(1) + " %";
  const number = value => Number.isInteger(value) ? String(value) : value.toFixed(value < 100 ? 2 : 0);
  const time = value => value < 1 ? Number((1000 * value).toPrecision(3)) + " ms" : value.toFixed(2) + " s";
  const times = value => value.toFixed(2) + "×";
  const wall = unix => new Date(1000 * unix).toLocaleTimeString();
  const shown = (value, write) => value === null || value === undefined ? "–" : write(value);

  function ago(seconds) {
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const [length, name] = units.find(([one]) => seconds >= one) || [1, "s"];
    return Math.max(0, Math.round(seconds / length)) + " " + name + " ago";
  }

  // Why there are no drafts in the verdict's own window, or nothing where there are some: without
  // them the figures are the baseline's against itself, and say nothing of speculation.
  function quiet(model, target, guard) {
    if (target.role === "standard" || model.speculation === "absent" || model.speculation === "not_speculative") return "absent";
    const told = model.verdict;
    if (model.speculation !== "inactive" && !(told && told.absent.acceptance_length === "no_drafts")) return null;
    return guard.target === target.name && guard.flag.desired === false ? "off" : "inactive";
  }

  function ratios(told, than) {
    const low = told.speedup_ratio_low, high = told.speedup_ratio_high;
    const between = low ? " (" + times(low.concurrency) + " to " + times(high.concurrency) + ")" : "";
    return "each token comes " + times(told.speedup_ratio.concurrency) + " as fast as " + than + between;
  }

  function margin(told) {
    if (told.absent.breakeven_acceptance_length === "cannot_pay") return " No acceptance could pay for what a step costs here.";
    if (!("breakeven_acceptance_length" in told) || !("acceptance_length" in told)) return "";
    return " Acceptance length is " + told.acceptance_length.toFixed(2) + "; it breaks even at " + told.breakeven_acceptance_length.toFixed(2) + ".";
  }

  // Gives the answer, its style, the rest of the sentence, and the reason's code.
  function sentence(model, target, guard) {
    const told = model.verdict, why = quiet(model, target, guard);
    if (model.speculation === "idle") return ["Idle", "dim", ": no tokens in the last seconds, so there is nothing to judge.", ""];
    const because = model.speculation_reason && why === "inactive" ? " (" + words(model.speculation_reason) + ")" : "";
    if (!told) {
      const state = why ? QUIET[why] : "Speculation is " + words(model.speculation);
      return [state, "dim", because + ". Without a baseline nobody knows whether it pays: specgauge baseline record makes one.", ""];
    }
    if (why && told.speedup_ratio) return [QUIET[why], "dim", because + ": " + ratios(told, "the baseline says") + ". About 1 is as it should be while nothing is drafted.", ""];
    const [answer, style] = ANSWERS[told.verdict];
    if (told.verdict === "unknown") {
      const differs = told.mismatches.length ? " (it differs in " + told.mismatches.map(words).join(", ") + ")" : "";
      const seen = told.speedup_ratio ? ". So far " + ratios(told, "without it") : "";
      return [answer, style, ": " + (WHY_NOT[told.reason] || words(told.reason)) + differs + seen + ".", told.reason];
    }
    if (told.reason === "latency_tradeoff") {
      const whole = "e2e_speedup_ratio" in told ? ", but whole requests " + times(told.e2e_speedup_ratio) : "";
      return ["Speculation wins and loses", "warn", ": " + ratios(told, "without it") + whole + ". Decide by what users wait for." + margin(told), told.reason];
    }
    return [answer, style, ": " + ratios(told, "without it") + ", " + times(told.speedup_ratio.throughput) + " under the same arrivals." + margin(told), told.reason];
  }

  // The same in three words, for a table of many.
  function brief(model, target, guard) {
    const why = quiet(model, target, guard), told = model.verdict;
    const state = why ? { absent: "no speculation", inactive: "not drafting", off: "off" }[why] : words(model.speculation);
    if (!told || why) return [state, "dim"];
    const how = told.verdict === "unknown" ? "no verdict" : told.reason === "latency_tradeoff" ? "wins and loses" : told.verdict === "even" ? "no difference" : told.verdict;
    const ratio = told.verdict !== "unknown" && told.speedup_ratio ? " " + times(told.speedup_ratio.concurrency) : "";
    return [state + ", " + how + ratio, told.reason === "latency_tradeoff" ? "warn" : ANSWERS[told.verdict][1]];
  }

  return { words, share, number, time, times, wall, ago, shown, sentence, brief };
})();
