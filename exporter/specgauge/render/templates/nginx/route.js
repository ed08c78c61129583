// The router's decisions for nginx's JavaScript module (njs 0.7.9 or later): the same, from the same
// table, as `specgauge route explain` makes. Rendered by specgauge; change the configuration instead.
import fs from 'fs';

const TAIL = 4096;          // bytes of the end of an answer that are kept
const STATE = '/_specgauge/state';

// ---------------------------------------------------------------- the shape of a request

function isNumber(value) {
  return typeof value === 'number';
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// The preloaded table is no ordinary object: its lists know only their length and their items.
function some(list, asked) {
  for (let i = 0; i < list.length; i++) {
    if (asked(list[i])) {
      return true;
    }
  }
  return false;
}

function holds(list, value) {
  return some(list, function (one) { return one === value; });
}

// Characters as Python counts them, where the engine counts UTF-16 units instead.
function characters(text) {
  if ('\u{1f600}'.length === 1) {
    return text.length;
  }
  return text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, '_').length;
}

function routeOf(table, path) {
  for (let i = 0; i < table.routes.length; i++) {
    if (path.endsWith(table.routes[i][0])) {
      return table.routes[i][1];
    }
  }
  return 'other';
}

function collectContent(content, pieces) {
  if (typeof content === 'string') {
    pieces.push(content);
  } else if (Array.isArray(content)) {
    content.forEach(function (part) {
      if (isObject(part) && typeof part.text === 'string') {
        pieces.push(part.text);
      }
    });
  }
}

function promptOf(table, found) {
  const pieces = [];
  for (let i = 0; i < table.prompts.length; i++) {
    const value = found[table.prompts[i]];
    if (typeof value === 'string') {
      pieces.push(value);
    } else if (Array.isArray(value)) {
      value.forEach(function (item) {
        if (typeof item === 'string') {
          pieces.push(item);
        } else if (isObject(item)) {
          collectContent(item.content, pieces);
        }
      });
    }
  }
  return pieces.length ? pieces.join('\n') : null;
}

function isStructured(table, found) {
  const asked = [found.response_format];
  if (isObject(found.text)) {
    asked.push(found.text.format);
  }
  const formats = asked.some(function (one) {
    return isObject(one) && typeof one.type === 'string' && one.type !== 'text';
  });
  if (formats) {
    return true;
  }
  const given = [];
  for (let i = 0; i < table.guided.length; i++) {
    given.push(found[table.guided[i]]);
  }
  if (isObject(found.structured_outputs)) {
    Object.keys(found.structured_outputs).forEach(function (name) {
      given.push(found.structured_outputs[name]);
    });
  }
  return given.some(function (one) { return one !== undefined && one !== null && one !== false; });
}

function hasTools(found) {
  if (Array.isArray(found.functions) && found.functions.length) {
    return true;
  }
  return Array.isArray(found.tools) && found.tools.length > 0 && found.tool_choice !== 'none';
}

function lengthOf(table, found) {
  for (let i = 0; i < table.lengths.length; i++) {
    if (isNumber(found[table.lengths[i]])) {
      return found[table.lengths[i]];
    }
  }
  return null;
}

// `found` is the parsed body, or null; `body` says why it is null. What nobody can tell is null.
function shapeOf(table, path, headers, body, found) {
  const shape = {
    body: body, path: path, route: routeOf(table, path), headers: headers, temperature: null,
    max_tokens: null, prompt_characters: null, stream: null, structured_output: null, tools: null,
    model: null, text: null,
  };
  if (found === null) {
    return shape;
  }
  const text = table.asks_prompt ? promptOf(table, found) : null;
  shape.temperature = isNumber(found.temperature) ? found.temperature : null;
  shape.max_tokens = lengthOf(table, found);
  shape.prompt_characters = text === null ? null : characters(text);
  shape.stream = found.stream === true;
  shape.structured_output = isStructured(table, found);
  shape.tools = hasTools(found);
  shape.model = typeof found.model === 'string' ? found.model : null;
  shape.text = text === null ? null : text.slice(0, table.looked_at);
  return shape;
}

function parse(text) {
  if (text === '') {
    return ['no_body', null];
  }
  let found = null;
  try {
    found = JSON.parse(text);
  } catch (error) {
    return ['malformed', null];
  }
  return isObject(found) ? ['read', found] : ['malformed', null];
}

// ---------------------------------------------------------------- the decision

function isWithin(bounds, value) {
  return value !== null
    && (bounds.above === undefined || value > bounds.above)
    && (bounds.at_least === undefined || value >= bounds.at_least)
    && (bounds.below === undefined || value < bounds.below)
    && (bounds.at_most === undefined || value <= bounds.at_most);
}

const RANGES = ['temperature', 'max_tokens', 'prompt_characters'];
const ANSWERS = ['stream', 'structured_output', 'tools'];

function fits(when, shape) {
  for (let i = 0; i < RANGES.length; i++) {
    if (when[RANGES[i]] && !isWithin(when[RANGES[i]], shape[RANGES[i]])) {
      return false;
    }
  }
  for (let i = 0; i < ANSWERS.length; i++) {
    if (when[ANSWERS[i]] !== undefined && when[ANSWERS[i]] !== shape[ANSWERS[i]]) {
      return false;
    }
  }
  if (when.routes && !holds(when.routes, shape.route)) {
    return false;
  }
  if (when.paths && !some(when.paths, function (one) { return shape.path.startsWith(one); })) {
    return false;
  }
  if (when.models && !holds(when.models, shape.model)) {
    return false;
  }
  if (when.header && !holds(when.header.values, shape.headers[when.header.name])) {
    return false;
  }
  if (when.texts) {
    const text = shape.text;
    return text !== null && some(when.texts, function (one) { return text.indexOf(one) >= 0; });
  }
  return true;
}

// `live` is {flag: 'on' | 'off' | 'unknown', loads: {key: true | false | null}}.
function refused(limit, live) {
  if (live.flag !== 'on') {
    return live.flag === 'off' ? 'flag_off' : 'flag_unknown';
  }
  if (limit === null) {
    return null;
  }
  const within = live.loads[limit];
  if (within !== true && within !== false) {
    return 'load_unknown';
  }
  return within ? null : 'load';
}

function decide(table, shape, live) {
  let rule = null;
  for (let i = 0; i < table.rules.length && rule === null; i++) {
    if (fits(table.rules[i].when, shape)) {
      rule = table.rules[i];
    }
  }
  const chosen = rule === null ? table.fallback : rule;
  const why = refused(chosen.load, live);
  if (why !== null) {
    return { name: chosen.name, pool: 'standard', reason: why };
  }
  let reason = shape.body === 'read' ? 'fallback' : shape.body;
  if (rule !== null) {
    reason = 'rule:' + rule.name;
  }
  return { name: chosen.name, pool: chosen.pool, reason: reason };
}

// ---------------------------------------------------------------- the flag and the load

// `age` is seconds since the sidecar's last sign; what it wrote may be older in itself.
function liveOf(table, state, age) {
  const terms = table.flag;
  const unknown = terms.then === 'speculative' ? 'on' : 'unknown';
  if (!isObject(state) || age === null) {
    return { flag: unknown, loads: {} };
  }
  let known = null;
  let since = age;
  if (state.flag === true || state.flag === false) {
    known = state.flag;
  } else if (state.last_flag === true || state.last_flag === false) {
    known = state.last_flag;
    since = age + (isNumber(state.last_flag_age) ? state.last_flag_age : 0);
  }
  let flag = unknown;
  if (known !== null && since <= terms.hold) {
    flag = known ? 'on' : 'off';
  }
  return { flag: flag, loads: age <= terms.fresh && isObject(state.loads) ? state.loads : {} };
}

function stateOfFile(table) {
  try {
    const state = JSON.parse(fs.readFileSync(table.state.file, 'utf8'));
    // A time to come is that of a clock that was set back since: as old as it is far away.
    const age = Math.abs(Date.now() - fs.statSync(table.state.file).mtimeMs) / 1000;
    return liveOf(table, state, age);
  } catch (error) {
    return liveOf(table, null, null);
  }
}

async function stateOfUrl(r, table) {
  const reply = await r.subrequest(STATE);
  let state = null;
  try {
    state = reply.status === 200 ? JSON.parse(reply.responseText) : null;
  } catch (error) {
    state = null;
  }
  // nginx serves an old answer while the sidecar is silent, up to the time that flags hold.
  const current = reply.variables.upstream_cache_status !== 'STALE';
  const age = state !== null && isNumber(state.age) ? Math.max(0, state.age) : 0;
  return liveOf(table, state, current ? age : Math.max(age, table.flag.fresh + 0.001));
}

async function stateNow(r, table) {
  if (table.state.file) {
    return stateOfFile(table);
  }
  if (table.state.url) {
    return await stateOfUrl(r, table);
  }
  return { flag: 'on', loads: {} };
}

// ---------------------------------------------------------------- nginx

function readBody(r, table) {
  const length = r.headersIn['Content-Length'];
  if (length !== undefined && Number(length) > table.max_body) {
    return ['body_too_large', null];
  }
  let text = '';
  try {
    text = r.requestText || '';  // its length is in bytes; decoding it would cost more than parsing
  } catch (error) {
    return ['body_too_large', null];  // it lies in a file, which only nginx itself can read
  }
  return text.length > table.max_body ? ['body_too_large', null] : parse(text);
}

// Of a header that is there twice the last one counts: whoever stands in front adds it behind.
function headersAsked(r, table) {
  const found = {};
  for (let i = 0; i < table.rules.length; i++) {
    const header = table.rules[i].when.header;
    if (header && r.headersIn[header.name] !== undefined) {
      r.rawHeadersIn.forEach(function (pair) {
        if (pair[0].toLowerCase() === header.name) {
          found[header.name] = pair[1].trim();
        }
      });
    }
  }
  return found;
}

function streams(found) {
  if (found === null) {
    return '';
  }
  return found.stream === true ? '1' : '0';
}

async function handle(r) {
  let chosen = { name: 'other', pool: 'standard', reason: 'router_error' };
  let read = ['malformed', null];
  try {
    const table = specgauge_routes;
    read = readBody(r, table);
    const live = await stateNow(r, table);
    const headers = headersAsked(r, table);
    let shape = shapeOf(table, r.uri, headers, read[0], null);
    try {
      shape = shapeOf(table, r.uri, headers, read[0], read[1]);
    } catch (error) {
      shape.body = 'malformed';  // a text that is no UTF-8 and cannot be joined with others
      read = ['malformed', null];
    }
    chosen = decide(table, shape, live);
  } catch (error) {
    r.error('specgauge: ' + error.message);
  }
  r.variables.specgauge_class = chosen.name;
  r.variables.specgauge_wanted = chosen.pool;
  r.variables.specgauge_reason = chosen.reason;
  r.variables.specgauge_body = read[0];
  r.variables.specgauge_stream = streams(read[1]);
  r.internalRedirect('@specgauge_' + chosen.pool);
}

// Sees every chunk of an answer as it passes; keeps its end, and when its first byte came.
function tail(r, data, flags) {
  r.sendBuffer(data, flags);
  if (flags.last) {
    r.variables.specgauge_ended = '1';
  }
  if (data.length > 0) {
    if (r.variables.specgauge_first_byte === '') {
      r.variables.specgauge_first_byte = r.variables.request_time;
    }
    const kept = r.rawVariables.specgauge_tail;
    const both = data.length < TAIL && kept.length ? Buffer.concat([kept, data]) : data;
    r.variables.specgauge_tail = both.slice(Math.max(0, both.length - TAIL));
  }
}

// The object that follows the last `"name":` in a text, or null; braces in texts do not count.
function lastObject(text, name) {
  const at = text.lastIndexOf('"' + name + '"');
  const start = at < 0 ? -1 : text.indexOf('{', at);
  if (start < 0 || text.slice(at + name.length + 2, start).trim() !== ':') {
    return null;
  }
  let depth = 0;
  let inText = false;
  for (let i = start; i < text.length; i++) {
    const one = text[i];
    if (inText) {
      if (one === '\\') {
        i++;
      } else if (one === '"') {
        inText = false;
      }
    } else if (one === '"') {
      inText = true;
    } else if (one === '{') {
      depth++;
    } else if (one === '}') {
      depth--;
      if (depth === 0) {
        try {
          return JSON.parse(text.slice(start, i + 1));
        } catch (error) {
          return null;
        }
      }
    }
  }
  return null;
}

function figure(r, name, key) {
  const kept = r.rawVariables.specgauge_tail;
  const found = kept && kept.length ? lastObject(kept.toString('utf8'), name) : null;
  const value = found === null ? undefined : found[key];
  return Number.isInteger(value) && value >= 0 ? String(value) : '';
}

// Servers of one pool are divided by commas, those of the next by a colon: one form for both.
function divided(text) {
  return text ? text.split(' : ').join(', ') : '';
}

function upstream(r) { return divided(r.variables.upstream_addr); }
function upstreamStatus(r) { return divided(r.variables.upstream_status); }
function completionTokens(r) { return figure(r, 'usage', 'completion_tokens'); }
function promptTokens(r) { return figure(r, 'usage', 'prompt_tokens'); }
function drafts(r) { return figure(r, 'speculative_decoding', 'num_spec_steps'); }
function draftTokens(r) { return figure(r, 'speculative_decoding', 'num_draft_tokens'); }
// An engine that dies, or cannot go on, ends a stream in good form, with an event that says so.
function endsInError(r) {
  const kept = r.rawVariables.specgauge_tail;
  return kept && kept.length ? /(^|\n)data: ?{"error":/.test(kept.toString('utf8')) : false;
}

// Whether the answer went out whole: neither did its server break it off nor did the client go away.
function complete(r) {
  const ended = r.variables.specgauge_ended === '1' || r.method === 'HEAD' || r.status === 204;
  return ended && r.variables.request_completion && !endsInError(r) ? '1' : '';
}

function acceptedTokens(r) { return figure(r, 'speculative_decoding', 'num_accepted_draft_tokens'); }

export default {
  handle, tail, complete, upstream, upstreamStatus, completionTokens, promptTokens, drafts, draftTokens, acceptedTokens,
  decide, shapeOf, parse, liveOf, lastObject,
};
