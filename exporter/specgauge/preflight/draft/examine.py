"""Read a target and its draft and have them judged; the rim around `judge`."""

from specgauge.errors import UsageError
from specgauge.preflight.draft.encode import LIBRARY_MISSING, available, encode, samples
from specgauge.preflight.draft.fault import ModelError
from specgauge.preflight.draft.folder import Model, read_model
from specgauge.preflight.draft.hub import locate
from specgauge.preflight.draft.judge import Report, judge
from specgauge.preflight.draft.method import infer
from specgauge.preflight.draft.pair import Encodings, Pair, Wish
from specgauge.preflight.draft.releases import NEEDS_NO_DRAFT, rules


def load(source: str, *, online: bool = False) -> Model:
    """Read a model by its folder or its hub name."""
    return read_model(locate(source, online=online), source)


def examine(
    target: Model, draft: Model | None, *, method: str | None, release: str, wish: Wish
) -> Report:
    """Judge a pair. Without a draft the method must be one that needs none."""
    if draft is None and method not in {*NEEDS_NO_DRAFT, "mtp"}:
        raise UsageError("no DRAFT is given; name one, or --method ngram, suffix or mtp")
    if draft is not None and method in NEEDS_NO_DRAFT:
        raise UsageError(f"--method {method} needs no draft; leave DRAFT out")
    if draft is None or method is not None:
        assert method is not None
        name = method
    else:
        name = infer(draft.config, draft.weights, draft.source).name
    encodings, reason = (None, "") if draft is None else _encodings(target, draft, name)
    return judge(
        Pair(
            target=target,
            draft=draft or target,
            method=name,
            rules=rules(release, name),
            wish=wish,
            encodings=encodings,
            encodings_reason=reason,
        )
    )


def _encodings(target: Model, draft: Model, method: str) -> tuple[Encodings | None, str]:
    """Encode the samples by both tokenizers where that tells something, or say why not."""
    ours, theirs = target.vocabulary, draft.vocabulary
    if method != "draft_model" or (ours and theirs and ours.encoder == theirs.encoder):
        return None, ""
    for model in (target, draft):
        if model.tokenizer_file is None:
            return None, f"{model.source} has no tokenizer.json to encode with"
    if not available():
        return None, LIBRARY_MISSING
    texts = samples()
    try:
        made = [encode(one.tokenizer_file, texts) for one in (target, draft) if one.tokenizer_file]
    except ModelError as error:
        return None, str(error)
    return Encodings(texts=texts, target=made[0], draft=made[1]), ""
