"""The configuration of a Prometheus that scrapes sidecars and engines and loads the rules."""

from collections.abc import Iterator

from specgauge.errors import RenderError
from specgauge.render.files import RenderedFile
from specgauge.render.native import ranges
from specgauge.render.options import Options
from specgauge.render.rules import HEAD
from specgauge.render.templating import fill


def prometheus(options: Options) -> Iterator[RenderedFile]:
    """Make a configuration that lies beside the rule files it names."""
    if options.job == options.engine_job:
        raise RenderError(["rules.job and rules.engine_job are the same; give each its own name"])
    text = fill("stack/prometheus.yaml", options, newest=ranges("V1")[-1].slug)
    yield RenderedFile(path="rules/prometheus.yaml", text=HEAD + text)
