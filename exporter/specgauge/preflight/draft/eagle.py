"""The tensors of EAGLE heads against their own configuration and the target; reads no tokens."""

from specgauge.preflight.draft.finding import Code, Engine, Finding, Severity, refusal
from specgauge.preflight.draft.pair import Pair
from specgauge.preflight.draft.weights import Tensor

OTHER_SHAPE = (
    "Tried to load weights of size torch.Size({tensor})to a parameter of size torch.Size({config})"
)
NO_MODEL = "There is no module or parameter named 'model'"
OTHER_MAP = "Attempted to load weight (torch.Size([{found}])) into parameter (torch.Size([{rows}]))"
NO_MAP = "There is no module or parameter named 'draft_id_to_target_id'"
MISSING_STATES = "shape '[-1, {width}]' is invalid for input of size"
_AUXILIARY = 3


def check_tensors(pair: Pair) -> list[Finding]:
    """Check all that an EAGLE head's tensors and configuration tell."""
    return [*_whole(pair), *_input(pair), *_vocabulary(pair), *_layers(pair), *_embedding(pair)]


def _whole(pair: Pair) -> list[Finding]:
    """Find a model of its own that is to be used as a head."""
    names = pair.draft.weights.tensors if pair.draft.weights is not None else {}
    if _tensor(pair, "fc.weight") or not any(one.startswith("model.layers.") for one in names):
        return []
    return [
        refusal(
            code=Code.HEAD_IS_WHOLE_MODEL,
            message=f"this is a model of its own, not an {pair.method} head: it has no fc.weight",
            engine_says=NO_MODEL if pair.method == "eagle" else None,
            fix="use it with the method draft_model",
        )
    ]


def fed(pair: Pair) -> tuple[int | None, str]:
    """Say how wide the head takes the target's states to be, as its config.json has it."""
    config = pair.draft.config
    if config.target_hidden_size is not None and pair.method == "eagle3":
        return config.target_hidden_size, "target_hidden_size"
    return config.hidden_size, "hidden_size"


def _input(pair: Pair) -> list[Finding]:
    """Compare the shape of the head's input with what its own config.json asks for."""
    width, (states, _) = pair.draft.config.hidden_size, fed(pair)
    found = _tensor(pair, "fc.weight")
    if found is None or width is None or states is None:
        return []
    many = len(pair.draft.config.auxiliary_layers) or _AUXILIARY
    wanted = (width, many * states if pair.method == "eagle3" else 2 * width)
    if found.shape == wanted:
        return []
    numbers = {"tensor": list(found.shape), "config": list(wanted)}
    return [
        refusal(
            code=Code.HEAD_TENSOR_SHAPE,
            message=f"fc.weight has shape {found.shape}, config.json asks for {wanted}",
            numbers={name: str(shape) for name, shape in numbers.items()},
            engine_says=OTHER_SHAPE.format(**numbers),
            fix="the tensors are another head's: fetch config.json and weights together again",
        )
    ]


def _vocabulary(pair: Pair) -> list[Finding]:
    """Compare vocabularies: a head reads the target's ids and may write fewer, by a map."""
    target, config = pair.target.config.vocab_size, pair.draft.config
    findings = []
    if target is not None and config.vocab_size is not None and target != config.vocab_size:
        findings.append(
            Finding(
                code=Code.HEAD_VOCABULARY_SIZE,
                severity=Severity.CONDITION,
                message=f"the head's vocab_size is {config.vocab_size}, the target's {target}",
                numbers={"target": target, "draft": config.vocab_size},
                fix="the engine does not compare them: see that the head was trained for this "
                "very target",
            )
        )
    rows = config.draft_vocab_size
    if target is not None and pair.draft.weights is not None:
        findings += _map(pair, config.vocab_size or target if rows is None else rows, target)
    return findings


def _map(pair: Pair, rows: int, target: int) -> list[Finding]:
    """See that a head with fewer tokens maps them to the target's."""
    numbers = {"draft_vocab_size": rows, "target": target}
    fix = "take a checkpoint with d2t, or build it from the tokens the head was trained on"
    found = _tensor(pair, "d2t")
    if rows == target:
        return [] if found is None or pair.method != "eagle3" else [_needless_map(pair, numbers)]
    if pair.draft.config.draft_vocab_size is None:
        return []
    if found is None:
        return [
            Finding(
                code=Code.HEAD_MAP_MISSING,
                severity=Severity.ERROR,
                message=f"the head writes {rows} tokens of {target} and has no map d2t: the "
                "engine takes draft id i for target id i",
                numbers=numbers,
                fix=fix,
            )
        ]
    if found.shape != (rows,):
        return [
            refusal(
                code=Code.HEAD_MAP_SHAPE,
                message=f"the map d2t has shape {found.shape}, the head writes {rows} tokens",
                numbers={**numbers, "d2t": str(found.shape)},
                engine_says=OTHER_MAP.format(
                    found=", ".join(str(one) for one in found.shape), rows=rows
                ),
                fix=fix,
            )
        ]
    return []


def _needless_map(pair: Pair, numbers: dict[str, int]) -> Finding:
    """Tell of a map that a head of all tokens has no use for, as its release takes it."""
    severity, effect = {
        True: (Severity.ERROR, Engine.REFUSES),
        False: (Severity.NOTE, Engine.STARTS),
        None: (Severity.UNKNOWN, Engine.UNKNOWN),
    }[pair.rules.needless_map_refused]
    return Finding(
        code=Code.HEAD_MAP_NEEDLESS,
        severity=severity,
        message=f"the head writes all {numbers['target']} tokens and has a map d2t all the same",
        numbers=dict(numbers),
        effect=effect,
        engine_says=NO_MAP if effect is Engine.REFUSES else None,
        fix="set draft_vocab_size in the head's config.json to the rows of d2t, or leave d2t out",
    )


def _layers(pair: Pair) -> list[Finding]:
    """See that the layers a head listens to are there, and that it has those it names."""
    layers, config = pair.target.config.layers, pair.draft.config
    findings = []
    beyond = [one for one in config.auxiliary_layers if layers is not None and one > layers]
    if beyond:
        findings.append(
            Finding(
                code=Code.HEAD_AUXILIARY_LAYERS,
                severity=Severity.ERROR,
                message=f"the head listens to layer {beyond[0]}, the target has {layers}",
                numbers={"layer": beyond[0], "target_layers": layers},
                effect=Engine.FAILS,
                engine_says=MISSING_STATES.format(width=_states(pair)),
                fix="take the head that was trained for this very target",
            )
        )
    own = _own_layers(pair)
    if own and config.layers is not None and own != config.layers:
        findings.append(
            Finding(
                code=Code.HEAD_LAYERS,
                severity=Severity.ERROR,
                message=f"config.json names {config.layers} layers, the tensors have {own}",
                numbers={"config": config.layers, "tensors": own},
                fix="set num_hidden_layers in the head's config.json to what its tensors have",
            )
        )
    return findings


def _states(pair: Pair) -> int | str:
    """Give the width of all hidden states beside each other, which the engine asks for."""
    width, _ = fed(pair)
    return "..." if width is None else width * len(pair.draft.config.auxiliary_layers)


def _own_layers(pair: Pair) -> int:
    names = pair.draft.weights.tensors if pair.draft.weights is not None else {}
    split = [one.split(".") for one in names]
    numbered = {
        parts[index + 1]
        for parts in split
        for index, part in enumerate(parts[:-1])
        if part == "layers" and parts[index + 1].isdecimal()
    }
    return len(numbered) or int(any("midlayer" in parts for parts in split))


def _embedding(pair: Pair) -> list[Finding]:
    """See that a head of another width brings its own embedding: it cannot share the target's."""
    target, width = pair.target.config.hidden_size, pair.draft.config.hidden_size
    if pair.draft.weights is None or target is None or width is None or width == target:
        return []
    if _tensor(pair, "embed_tokens.weight") is not None:
        return []
    return [
        Finding(
            code=Code.HEAD_LACKS_EMBEDDING,
            severity=Severity.ERROR,
            message=f"the head is {width} wide and has no embedding of its own; the target's is "
            f"{target} wide and cannot be shared: the engine drafts with an empty one",
            numbers={"target": target, "draft": width},
            fix="take a checkpoint that holds embed_tokens",
        )
    ]


def _tensor(pair: Pair, name: str) -> Tensor | None:
    return None if pair.draft.weights is None else pair.draft.weights.ending(name)
