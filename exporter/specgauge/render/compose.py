"""The demo with Prometheus, Alertmanager and Grafana around it, for Docker Compose."""

from collections.abc import Iterator

from specgauge.render.files import RenderedFile
from specgauge.render.options import Options
from specgauge.render.rules import HEAD
from specgauge.render.templating import fill


def compose(options: Options) -> Iterator[RenderedFile]:
    """Make a file that lies in the repository's root, over the other rendered files."""
    # Compose takes a dollar for a variable of its own; two of them are one.
    doubled = {
        "image": options.image.replace("$", "$$"),
        "datasource": options.datasource.replace("$", "$$"),
    }
    yield RenderedFile(
        path="compose.yaml", text=HEAD + fill("stack/compose.yaml", options, **doubled)
    )
