"""Run by the engine's own interpreter: what its parser and its validator say of command lines.

Reads a list of argument lists from standard input, with whether to build the configuration of
speculation as well; writes a list of nothing (accepted) or the complaint. It loads no weights.
"""

import contextlib
import io
import json
import sys
from importlib import import_module
from typing import Any


def _parser() -> Any:
    serve = import_module("vllm.entrypoints.cli.serve")  # only the engine's interpreter has it
    parser = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    commands = parser.add_subparsers(dest="subparser")
    for command in serve.cmd_init():
        command.subparser_init(commands)
    return parser


def _complaint(parser: Any, arguments: list[str], *, builds: bool) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = parser.parse_args(["serve", *arguments])
        if not builds:
            return None
        parsed.model = parsed.model_tag
        engine = import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(parsed)
        around = import_module("vllm.config").ParallelConfig(tensor_parallel_size=1)
        engine.create_speculative_config(engine.create_model_config(), around)
    except SystemExit:
        return f"refused: {said.getvalue()[-400:]}"
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is the answer
        return f"{type(error).__name__}: {error}"[:400]
    return None


def main() -> None:
    """Answer for every line that is asked about."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        parser = _parser()
        answers = [_complaint(parser, one["arguments"], builds=one["builds"]) for one in asked]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
