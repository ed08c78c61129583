"""Tokens, special tokens, encodings and chat templates of a pair; compares no sizes."""

from specgauge.preflight.draft.finding import Area, Checked, Code, Finding, Severity, Unmeasured
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.pair import Difference, Pair
from specgauge.preflight.draft.vocabulary import Vocabulary

FEW_SHARE = 0.01
"""Up to this share of differing ids the draft is still of the target's family."""
_LONGEST = 40
_STOPPING = frozenset({"bos", "eos"})
_ENGINE = "the engine does not look: it feeds the target's ids to the draft"


def check_texts(pair: Pair, difference: Difference | None) -> Checked:
    """Compare the text of every id: the draft reads and writes the target's ids."""
    area = Area.TEXTS
    if difference is None:
        return _no_texts(pair)
    if not difference.all:
        return Checked(area=area)
    few = difference.all <= FEW_SHARE * difference.ids
    ours, theirs = (_shown(one) for one in (difference.first_target, difference.first_draft))
    finding = Finding(
        code=Code.FEW_TEXTS_DIFFER if few else Code.TEXTS_DIFFER,
        severity=Severity.CONDITION if few else Severity.ERROR,
        message=f"{difference.all} of {difference.ids} ids differ; the first is "
        f"{difference.first}: {ours} in the target, {theirs} in the draft; {_ENGINE}",
        numbers={
            "ids": difference.ids,
            "different_texts": difference.texts,
            "only_in_target": difference.only_target,
            "only_in_draft": difference.only_draft,
            "first_id": difference.first,
            "first_in_target": difference.first_target,
            "first_in_draft": difference.first_draft,
        },
        fix="drafts of these tokens are rejected, the output stays right; see that they are rare"
        if few
        else "take a draft with the target's tokenizer: with this one nearly nothing is accepted",
    )
    return Checked(area=area, findings=(finding,))


def check_specials(pair: Pair) -> Checked:
    """Compare the ids that begin, end and pad, and those that end a chat's turn."""
    target, draft = pair.target.vocabulary, pair.draft.vocabulary
    area = Area.SPECIAL_TOKENS
    if target is None or draft is None:
        return Checked(area=area, unmeasured=(_without(pair, area),))
    findings = [
        Finding(
            code=Code.SPECIAL_TOKENS_DIFFER,
            severity=Severity.CONDITION if stops else Severity.NOTE,
            message=f"{name} is {_ids(ours)} in the target and {_ids(theirs)} in the draft",
            numbers={"token": name, "target": _ids(ours), "draft": _ids(theirs)},
            fix="the target's ids hold and the output stays right; drafts at the end of a turn "
            "are rejected"
            if stops
            else None,
        )
        for name, ours, theirs, stops in (*_roles(target, draft), *_turns(target, draft))
    ]
    return Checked(area=area, findings=tuple(findings))


def check_encodings(pair: Pair) -> Checked:
    """Compare what both tokenizers make of the samples; tokenizers that are one need no samples."""
    area = Area.ENCODINGS
    target, draft = pair.target.vocabulary, pair.draft.vocabulary
    if target is not None and draft is not None and target.encoder == draft.encoder:
        return Checked(area=area)
    if pair.encodings is None:
        return Checked(area=area, unmeasured=(Unmeasured(area=area, reason=pair.encodings_reason),))
    both = zip(pair.encodings.texts, pair.encodings.target, pair.encodings.draft, strict=True)
    wrong = [(text, ours, theirs) for text, ours, theirs in both if ours != theirs]
    if not wrong:
        return Checked(area=area)
    text, ours, theirs = wrong[0]
    count = len(pair.encodings.texts)
    finding = Finding(
        code=Code.ENCODINGS_DIFFER,
        severity=Severity.CONDITION,
        message=f"{len(wrong)} of {count} sample texts are cut up differently, as {_shown(text)}: "
        f"{len(ours)} tokens by the target, {len(theirs)} by the draft",
        numbers={"samples": count, "different": len(wrong), "first_text": text},
        fix="the target's tokenizer is the one that is used; a draft trained on another cut is "
        "accepted less",
    )
    return Checked(area=area, findings=(finding,))


def check_template(pair: Pair) -> Checked:
    """Compare chat templates: the draft sees the target's."""
    ours, theirs = (_template(one) for one in (pair.target, pair.draft))
    if ours == theirs or ours is None:
        return Checked(area=Area.CHAT_TEMPLATE)
    message = (
        "the draft has no chat template: it may not be trained for chat"
        if theirs is None
        else "the chat templates differ; the target's is the one that is used"
    )
    finding = Finding(
        code=Code.CHAT_TEMPLATE_DIFFERS,
        severity=Severity.CONDITION,
        message=message,
        fix="measure acceptance on chats; a draft tuned on the target's template is accepted more",
    )
    return Checked(area=Area.CHAT_TEMPLATE, findings=(finding,))


def _template(model: Model) -> str | None:
    return None if model.template is None else model.template.strip().replace("\r\n", "\n")


def _no_texts(pair: Pair) -> Checked:
    """Say why texts were not compared; a head without a tokenizer of its own needs none."""
    missing = _without(pair, Area.TEXTS)
    if pair.head:
        return Checked(area=Area.TEXTS, unmeasured=(missing,))
    finding = Finding(
        code=Code.TOKENIZER_UNKNOWN,
        severity=Severity.UNKNOWN,
        message=f"tokens were not compared: {missing.reason}; {_ENGINE}",
        fix="put the tokenizer.json that the model was trained with into its folder",
    )
    return Checked(area=Area.TEXTS, findings=(finding,), unmeasured=(missing,))


def _without(pair: Pair, area: Area) -> Unmeasured:
    reasons = [
        f"{side}: {one.vocabulary_reason}"
        for side, one in (("target", pair.target), ("draft", pair.draft))
        if one.vocabulary is None
    ]
    return Unmeasured(area=area, reason="; ".join(reasons))


Differing = tuple[str, tuple[int, ...], tuple[int, ...], bool]


def _roles(target: Vocabulary, draft: Vocabulary) -> list[Differing]:
    """Find roles that both fill with no id in common."""
    return [
        (role, ids, draft.roles[role], role in _STOPPING)
        for role, ids in target.roles.items()
        if role in draft.roles and not set(ids) & set(draft.roles[role])
    ]


def _turns(target: Vocabulary, draft: Vocabulary) -> list[Differing]:
    """Find tokens that end a turn and have another id, or none, on the other side."""
    ours, theirs = target.ends(), draft.ends()
    return [
        (text, _one(ours.get(text)), _one(theirs.get(text)), True)
        for text in sorted(ours.keys() | theirs.keys())
        if ours.get(text) != theirs.get(text)
    ]


def _one(number: int | None) -> tuple[int, ...]:
    return () if number is None else (number,)


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(str(one) for one in ids) or "none"


def _shown(text: str | None) -> str:
    if text is None:
        return "nothing"
    return ascii(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
