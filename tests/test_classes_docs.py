"""The examples of docs/classes.md: configuration that loads, queries that parse, a document."""

import json
import re
from pathlib import Path

import promql_parser
import pytest
from tests.class_lines import LINE

from specgauge.config import load
from specgauge.serve.classes.document import SCHEMA

PAGE = (Path(__file__).parents[1] / "docs" / "classes.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks("yaml"), ids=lambda text: text.splitlines()[0])
def test_configuration_loads(text: str, tmp_path: Path) -> None:
    """Each example is a whole configuration."""
    for path in set(re.findall(r"/(?:var|etc|run)/[\w./-]+", text)):
        local = tmp_path / path.rpartition("/")[2]
        text = text.replace(path, str(local))
    text = re.sub(r", file: [^}]*", "", text)  # a baseline, which is no example of ours
    file = tmp_path / "specgauge.yaml"
    file.write_text(text)
    assert load(file, env={}, overrides={}).targets


@pytest.mark.parametrize("query", blocks("promql"), ids=lambda text: text.strip()[:40])
def test_queries_parse(query: str) -> None:
    """Prometheus can read each of them."""
    assert promql_parser.parse(query) is not None


def test_document_is_one() -> None:
    """The example is JSON of the schema, and its pooled figures follow from its contexts."""
    (text,) = blocks("json")
    document = json.loads(text)
    assert document["schema"] == SCHEMA
    (pool,) = document["classes"][0]["pools"]
    sums = {
        key: sum(context[key] for context in pool["contexts"])
        for key in ("drafts", "draft_tokens", "accepted_tokens")
    }
    assert pool["acceptance_ratio"] == sums["accepted_tokens"] / sums["draft_tokens"]
    assert pool["acceptance_length"] == 1 + sums["accepted_tokens"] / sums["drafts"]


def test_every_key_of_a_line_is_told() -> None:
    """Keys of the log that are read stand in the table."""
    read = set(LINE) - {"time", "id", "reason", "bytes", "upstream_status"} | {"complete"}
    assert [key for key in sorted(read) if f"`{key}`" not in PAGE] == []
