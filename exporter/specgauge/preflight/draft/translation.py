"""Different vocabularies translated by the engine, where the release does that at all."""

from specgauge.preflight.draft.finding import (
    Area,
    Checked,
    Code,
    Engine,
    Finding,
    Severity,
    Unmeasured,
    refusal,
)
from specgauge.preflight.draft.pair import Pair
from specgauge.preflight.draft.vocabulary import Vocabulary

NEEDS_DRAFT_MODEL = "use_heterogeneous_vocab only works with method='draft_model'"
NEEDS_UNKNOWN = "VocabMapping: {side} tokenizer has neither unk_token_id nor eos_token_id"
SMALL = "Very small vocabulary intersection ({shared} tokens)."
FEW = 100
_HALF = 0.5


def check_translation(pair: Pair) -> Checked:
    """Say whether the engine can translate, and how much of the vocabularies is shared."""
    findings = _allowed(pair)
    missing: tuple[Unmeasured, ...] = ()
    if pair.translated:
        target, draft = pair.target.vocabulary, pair.draft.vocabulary
        if target is None or draft is None:
            reason = pair.target.vocabulary_reason or pair.draft.vocabulary_reason
            missing = (Unmeasured(area=Area.TEXTS, reason=reason),)
            findings.append(_no_tokenizer(pair))
        else:
            findings += _mapping(pair, target, draft)
    return Checked(area=Area.TEXTS, findings=tuple(findings), unmeasured=missing)


def _allowed(pair: Pair) -> list[Finding]:
    """Refuse the key where the method or the release knows nothing of it."""
    if pair.method != "draft_model" and pair.rules.heterogeneous:
        return [
            refusal(
                code=Code.HETEROGENEOUS_NEEDS_DRAFT_MODEL,
                message=f"{pair.method} cannot work with two vocabularies",
                engine_says=NEEDS_DRAFT_MODEL,
                fix="leave use_heterogeneous_vocab out",
            )
        ]
    if not pair.rules.heterogeneous:
        return [
            refusal(
                code=Code.HETEROGENEOUS_NOT_IN_RELEASE,
                message=f"{pair.rules.release} does not know use_heterogeneous_vocab",
                engine_says="use_heterogeneous_vocab",
                fix="upgrade to 0.25.0 or later, or take a draft with the target's vocabulary",
            )
        ]
    return []


def _no_tokenizer(pair: Pair) -> Finding:
    side = "draft" if pair.draft.vocabulary is None else "target"
    return Finding(
        code=Code.HETEROGENEOUS_NEEDS_TOKENIZER,
        severity=Severity.UNKNOWN,
        message=f"the engine reads both tokenizers to translate, and the {side}'s could not be "
        "read here",
        effect=Engine.UNKNOWN,
        fix=f"put the {side}'s tokenizer.json into its folder",
    )


def _mapping(pair: Pair, target: Vocabulary, draft: Vocabulary) -> list[Finding]:
    """Count the tokens that both have, as the engine counts them."""
    lost = [
        side
        for side, one in (("target", target), ("draft", draft))
        if not one.roles.get("unk") and not one.roles.get("eos")
    ]
    if lost:
        return [
            refusal(
                code=Code.HETEROGENEOUS_NEEDS_UNKNOWN,
                message=f"the {lost[0]}'s tokenizer names neither an unknown nor an end token",
                engine_says=NEEDS_UNKNOWN.format(side=lost[0]),
                fix="name unk_token or eos_token in tokenizer_config.json",
            )
        ]
    shared = _shared(pair, target, draft)
    share = shared / draft.size
    numbers = {"shared": shared, "share_of_draft": share, "share_of_target": shared / target.size}
    small = shared < FEW or share < _HALF
    return [
        Finding(
            code=Code.SHARED_VOCABULARY_SMALL if small else Code.HETEROGENEOUS_VOCABULARY,
            severity=Severity.CONDITION,
            message=f"{shared} tokens are shared, {share:.1%} of the draft's; only these are "
            "drafted, and greedily",
            numbers=numbers,
            engine_says=SMALL.format(shared=shared) if shared < FEW else None,
            fix='keep "draft_sample_method": "greedy" (the default) and leave '
            "use_local_argmax_reduction out; a draft of the target's own family drafts better",
        )
    ]


def _shared(pair: Pair, target: Vocabulary, draft: Vocabulary) -> int:
    ours, theirs = target.normalised(), draft.normalised()
    rows = (pair.target.config.vocab_size or 0, pair.draft.config.vocab_size or 0)
    return sum(
        ours[text] < rows[0] and theirs[text] < rows[1] for text in ours.keys() & theirs.keys()
    )
