"""A target and its draft as they are to be started together; compares nothing yet but texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.releases import HEADS, Rules
from specgauge.preflight.draft.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How the pair is to be started, as given on the command line."""

    tensor_parallel: int = 1
    draft_tensor_parallel: int | None = None
    max_model_len: int | None = None
    tokens: int | None = None
    heterogeneous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """Sample texts and what both tokenizers make of them."""

    texts: Sequence[str]
    target: Sequence[tuple[int, ...]]
    draft: Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """All that the checks look at. `encodings_reason` says why there are none."""

    target: Model
    draft: Model
    method: str
    rules: Rules
    wish: Wish
    encodings: Encodings | None = None
    encodings_reason: str = ""

    @property
    def head(self) -> bool:
        """Whether the draft is a head on the target rather than a model of its own."""
        return self.method in HEADS

    @property
    def translated(self) -> bool:
        """Whether the engine translates between the two vocabularies."""
        return self.wish.heterogeneous and self.method == "draft_model" and self.rules.heterogeneous


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two vocabularies differ, id by id; `first` is the lowest id that does.

    `texts` counts ids with two different texts, the others ids that only one side has.
    """

    ids: int
    texts: int
    only_target: int
    only_draft: int
    first: int | None
    first_target: str | None
    first_draft: str | None

    @property
    def all(self) -> int:
        """Count every id that differs."""
        return self.texts + self.only_target + self.only_draft


def differ(target: Vocabulary, draft: Vocabulary) -> Difference:
    """Compare the texts of all ids."""
    ids = target.texts.keys() | draft.texts.keys()
    wrong = [one for one in ids if target.texts.get(one) != draft.texts.get(one)]
    first = min(wrong, default=None)
    return Difference(
        ids=len(ids),
        texts=sum(one in target.texts and one in draft.texts for one in wrong),
        only_target=sum(one not in draft.texts for one in wrong),
        only_draft=sum(one not in target.texts for one in wrong),
        first=first,
        first_target=None if first is None else target.texts.get(first),
        first_draft=None if first is None else draft.texts.get(first),
    )
