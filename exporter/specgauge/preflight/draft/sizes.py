"""Vocabulary sizes as the engine compares them: rows of the embedding, not tokens."""

from specgauge.preflight.draft.finding import (
    Area,
    Checked,
    Code,
    Engine,
    Finding,
    Severity,
    refusal,
)
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.pair import Difference, Pair

SAYS = (
    "Target and draft model should have the same vocabulary size. "
    "Target model vocab_size={target}. Draft model vocab_size={draft}. "
    "Using models with different tokenizers can cause out-of-bounds errors during "
    "speculative decoding."
)
ASSERTS = "AssertionError"
_KEY = '"use_heterogeneous_vocab": true'
_OTHER = "take a draft of the target's family whose config.json has vocab_size {target}"


def check_sizes(pair: Pair, difference: Difference | None) -> Checked:
    """Compare the embedding sizes, and each with its own tokenizer."""
    target, draft = pair.target.config.vocab_size, pair.draft.config.vocab_size
    found = [*_beyond(pair.target, "target"), *_beyond(pair.draft, "draft")]
    if target is None or draft is None:
        return Checked(area=Area.VOCABULARY_SIZE, findings=(*found, _unknown(pair)))
    if target != draft:
        found.append(_differs(pair, target, draft, difference))
    return Checked(area=Area.VOCABULARY_SIZE, findings=tuple(found))


def _differs(pair: Pair, target: int, draft: int, difference: Difference | None) -> Finding:
    same = difference is not None and difference.all == 0
    numbers = {"target": target, "draft": draft, "difference": draft - target}
    code = Code.VOCABULARY_PADDING_DIFFERS if same else Code.VOCABULARY_SIZE_DIFFERS
    what = (
        f"the embeddings have {target} and {draft} rows although every token is the same: "
        "only the padding differs"
        if same
        else f"the embeddings have {target} and {draft} rows"
    )
    if pair.translated:
        return Finding(
            code=code,
            severity=Severity.NOTE,
            message=f"{what}; with {_KEY} the engine takes it",
            numbers=numbers,
        )
    says = ASSERTS if pair.rules.compares_by_assertion else SAYS.format(target=target, draft=draft)
    return refusal(
        code=code,
        message=f"{what}; the engine compares rows, not tokens",
        numbers=numbers,
        engine_says=says if pair.rules.has_method is not False else None,
        fix=_fix(pair, target, same=same),
    )


def _fix(pair: Pair, target: int, *, same: bool) -> str:
    """Say what makes the engine take the pair, the cheapest first."""
    other = _OTHER.format(target=target)
    if same:
        resize = f"pad or cut the draft's embedding and output rows to {target}"
        other = f"{resize} (no token is touched) and set vocab_size in its config.json, or {other}"
    if pair.rules.heterogeneous:
        return f"set {_KEY} (draft_model with greedy drafting only), or {other}"
    return f"{other}; from 0.25.0 {_KEY} allows it too"


def _unknown(pair: Pair) -> Finding:
    which = [
        f"{name} ({one.folder / 'config.json'})"
        for name, one in (("target", pair.target), ("draft", pair.draft))
        if one.config.vocab_size is None
    ]
    return Finding(
        code=Code.VOCABULARY_SIZE_UNKNOWN,
        severity=Severity.UNKNOWN,
        message=f"no usable vocab_size for {' and '.join(which)}; the engine then takes the "
        "default of the model's class",
        effect=Engine.UNKNOWN,
        fix="write vocab_size, the number of rows of the embedding, into config.json",
    )


def _beyond(model: Model, side: str) -> list[Finding]:
    """Find tokens that have no row: the engine reads out of bounds when they come up."""
    rows, vocabulary = model.config.vocab_size, model.vocabulary
    if rows is None or vocabulary is None or vocabulary.highest < rows:
        return []
    count = sum(one >= rows for one in vocabulary.texts)
    return [
        Finding(
            code=Code.TOKENS_BEYOND_EMBEDDING,
            severity=Severity.CONDITION,
            message=f"the {side}'s tokenizer has {count} tokens from id {rows} up, for which its "
            f"embedding of {rows} rows has none",
            numbers={"rows": rows, "highest_id": vocabulary.highest, "tokens": count},
            fix="make sure that no prompt holds these tokens, or resize the embedding",
        )
    ]
