"""Look for models on this machine that could draft; judges none of them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from specgauge.preflight.draft.cost import size
from specgauge.preflight.draft.fault import ModelError
from specgauge.preflight.draft.folder import Model, read_model, require_folder
from specgauge.preflight.draft.hub import cached_models

MOST = 64
"""More candidates than this are not looked at."""


def candidates(target: Model, among: Iterable[Path]) -> Iterator[Model]:
    """Give the models in some folders and the hub cache that are smaller than the target.

    A folder is a model's own or one of models; what cannot be read is no candidate.
    """
    seen = {target.folder.resolve()}
    own = size(target)
    places = [*((str(one), one) for one in _folders(among)), *cached_models()]
    for source, folder in places[:MOST]:
        place = folder.resolve()
        if place in seen:
            continue
        seen.add(place)
        try:
            model = read_model(folder, source)
        except ModelError:
            continue
        theirs = size(model)
        if own is None or theirs is None or theirs.total < own.total:
            yield model


def _folders(among: Iterable[Path]) -> Iterator[Path]:
    for one in among:
        require_folder(one)
        if (one / "config.json").is_file():
            yield one
            continue
        try:
            inner = sorted(one.iterdir())
        except OSError as error:
            raise ModelError(f"{one}: {error.strerror}; make it readable") from error
        found = [folder for folder in inner if (folder / "config.json").is_file()]
        if not found:
            raise ModelError(f"{one}: no model in it; give a folder of models, or a model's")
        yield from found
