// The page's tables: servers, and classes of traffic by pool; every text goes in as text.
"use strict";

const Tables = (() => {
  function element(name, text, style) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (style) made.className = style;
    return made;
  }

  function table(caption, heads) {
    const made = element("table");
    made.append(element("caption", caption));
    const top = made.createTHead().insertRow();
    for (const name of heads) {
      const cell = element("th", name);
      cell.scope = "col";
      top.append(cell);
    }
    return [made, made.createTBody()];
  }

  const isDown = target => target.result !== null && !target.up;

  function servers(targets, guard) {
    const down = targets.filter(isDown);
    const count = targets.length + (targets.length === 1 ? " server is scraped" : " servers are scraped");
    const [made, body] = table(count + (down.length ? ", " + down.length + (down.length === 1 ? " does" : " do") + " not answer." : "."), ["server", "health", "model: speculation, verdict"]);
    for (const one of [...down, ...targets.filter(target => !isDown(target))]) {
      const row = body.insertRow();
      const engine = [one.engine_version ? "vLLM " + one.engine_version : one.dialect, one.role, one.method].filter(Boolean).join(" · ");
      row.insertCell().append(element("strong", one.name), element("div", one.url, "dim"), element("div", engine, "dim"));
      const health = one.result === null ? "not scraped yet" : one.up ? "up" : Words.words(one.result);
      row.insertCell().append(element("span", health, one.up ? "good" : one.result === null ? "dim" : "bad"), element("div", one.up ? "" : one.detail, "dim"));
      const models = row.insertCell();
      for (const model of one.models) {
        const line = element("div", model.model_name + ": ");
        line.append(element("span", ...Words.brief(model, one, guard)));
        models.append(line);
      }
      if (!one.models.length) models.textContent = one.up ? "nothing served yet" : "not known";
    }
    return made;
  }

  const spread = one => one.count ? Words.time(one.p50) + " · " + Words.time(one.p95) : "–";

  // One row for each pool of a class; nothing is summed or averaged over classes.
  function classes(document) {
    const [made, body] = table("By class and by the pool that answered. Times are p50 · p95.", ["class", "pool", "requests", "errors", "first token", "whole request", "per output token", "acceptance length"]);
    for (const one of document.classes) {
      for (const [at, pool] of one.pools.entries()) {
        const row = body.insertRow();
        if (at === 0) {
          const name = element("th", one.class);
          name.scope = "rowgroup";
          name.rowSpan = one.pools.length;
          row.append(name);
        }
        row.insertCell().textContent = pool.pool;
        row.insertCell().textContent = String(pool.requests);
        row.append(element("td", String(pool.errors), pool.errors ? "bad" : ""));
        row.insertCell().textContent = spread(pool.ttft_seconds);
        row.insertCell().textContent = spread(pool.e2e_seconds);
        row.insertCell().textContent = Words.shown(pool.tpot_seconds, Words.time);
        row.insertCell().textContent = Words.shown(pool.acceptance_length, value => value.toFixed(2));
      }
    }
    return made;
  }

  return { element, isDown, servers, classes };
})();
