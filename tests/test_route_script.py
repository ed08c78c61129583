"""The router's script and `specgauge route explain` decide alike, run side by side in Node."""

import json
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.routed import RULES, requests

from specgauge.cli.route.settings import routes_of
from specgauge.config import load
from specgauge.render.nginx import script
from specgauge.routing.decide import Flag, Live, decide, flag_of
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import FlagTerms, Pool, Routes
from specgauge.routing.shape import shape_of
from specgauge.routing.table import table_of

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

DRIVER = """
import fs from 'fs';
import route from './route.mjs';
const asked = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const out = asked.requests.map(function (one) {
  let read = ['body_too_large', null];
  const bytes = Buffer.from(one.body, 'base64');
  if (bytes.length <= asked.table.max_body) {
    try {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      read = route.parse(text);
    } catch (error) {
      read = ['malformed', null];
    }
  }
  const shape = route.shapeOf(asked.table, one.path, one.headers, read[0], read[1]);
  return route.decide(asked.table, shape, one.live);
});
process.stdout.write(JSON.stringify(out));
"""


def run(folder: Path, driver: str, asked: Any) -> Any:
    """Run a driver beside the script in Node."""
    assert NODE is not None
    (folder / "route.mjs").write_text(script())
    (folder / "driver.mjs").write_text(driver)
    (folder / "asked.json").write_text(json.dumps(asked))
    command = [NODE, str(folder / "driver.mjs"), str(folder / "asked.json")]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def rules_of_tests(folder: Path) -> Routes:
    """Read the rules that ask about everything."""
    file = folder / "specgauge.yaml"
    file.write_text(f'targets: [{{url: "http://127.0.0.1:8000"}}]\nrouting:{RULES}')
    keys = load(file, env={}, overrides={}).routing
    assert keys is not None
    return routes_of(keys)


def lives(routes: Routes) -> list[Live]:
    """Every flag, and loads that hold, do not, or are unknown."""
    keys = [limit.key for limit in routes.limits()]
    answers = [dict.fromkeys(keys, answer) for answer in (True, False, None)]
    answers += [{}, {key: index == 0 for index, key in enumerate(keys)}]
    return [
        *(Live(loads=loads) for loads in answers),
        Live(flag=Flag.OFF, loads=answers[0]),
        Live(flag=Flag.UNKNOWN, loads=answers[0]),
    ]


@needs_node
@pytest.mark.parametrize(("rules", "count"), [("all", 3000), *((name, 500) for name in PRESETS)])
def test_same_decisions(tmp_path: Path, rules: str, count: int) -> None:
    """Thousands of requests, sound and broken, get the same class, pool and reason from both."""
    routes = rules_of_tests(tmp_path) if rules == "all" else Routes(rules=PRESETS[rules])
    states = lives(routes)
    asked, expected = [], []
    for index, one in enumerate(requests(7, count)):
        live = states[index % len(states)]
        headers = {name.lower(): value.strip() for name, value in one.headers.items()}
        asked.append(
            {
                "body": b64encode(one.body).decode(),
                "path": one.path,
                "headers": headers,
                "live": {"flag": str(live.flag), "loads": live.loads},
            }
        )
        shape = shape_of(one.body, path=one.path, headers=one.headers, max_body=routes.max_body)
        found = decide(routes, shape, live)
        expected.append(
            {"name": found.traffic_class, "pool": str(found.pool), "reason": found.reason}
        )
    got = run(tmp_path, DRIVER, {"table": table_of(routes), "requests": asked})
    wrong = [
        trio for trio in zip(requests(7, count), expected, got, strict=True) if trio[1] != trio[2]
    ]
    assert wrong == []
    assert len({(one["name"], one["pool"], one["reason"]) for one in expected}) >= 10


FIGURES = """
import fs from 'fs';
import route from './route.mjs';
const asked = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const flags = asked.states.map(function (one) {
  const live = route.liveOf(asked.table, one.state, one.age);
  return [live.flag, Object.keys(live.loads).length > 0];
});
const found = asked.tails.map(function (one) { return route.lastObject(one, 'usage'); });
process.stdout.write(JSON.stringify({flags: flags, found: found}));
"""


@needs_node
@pytest.mark.parametrize("then", list(Pool))
def test_same_flags(tmp_path: Path, then: Pool) -> None:
    """State and age mean the same flag to both, and an old state has no load."""
    terms = FlagTerms(fresh=5.0, hold=300.0, then=then)
    states: list[dict[str, Any]] = []
    expected: list[list[object]] = []
    for known in (True, False, None):
        for age in (0.0, 4.9, 5.1, 299.0, 301.0):
            states.append({"state": {"flag": known, "loads": {"4:3": True}}, "age": age})
            expected.append([str(flag_of(known=known, age=age, terms=terms)), age <= 5.0])
            for last in (True, False):
                state = {"flag": None, "last_flag": last, "last_flag_age": 2.0}
                states.append({"state": state, "age": age})
                expected.append([str(flag_of(known=last, age=age + 2.0, terms=terms)), False])
    nonsense: tuple[object, ...] = ([], None, "on", 1)
    for broken in nonsense:
        states.append({"state": broken, "age": 0.0})
        expected.append([str(flag_of(known=None, age=None, terms=terms)), False])
    table = table_of(Routes(flag=terms))
    got = run(tmp_path, FIGURES, {"table": table, "states": states, "tails": []})
    assert got["flags"] == expected


@needs_node
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"usage": {"a": 1}}', {"a": 1}),
        ('"usage":null} data: {"usage" : {"a": {"b": "}\\"{"}}}', {"a": {"b": '}"{'}}),
        ('{"usage": {"a": 1}} {"text": "\\"usage\\": {"}', {"a": 1}),
        ('{"usage": {"a": 1', None),
        ('{"usage": {a}}', None),
        ('{"usage": null, "x": {}}', None),
        ('"usage"', None),
        ("", None),
    ],
)
def test_figures(tmp_path: Path, text: str, found: object) -> None:
    """The last object of that name is found in the end of an answer; text of it never is."""
    got = run(tmp_path, FIGURES, {"table": {}, "states": [], "tails": [text]})
    assert got["found"] == [found]
