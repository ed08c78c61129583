"""The group of the flags commands."""

import click

from specgauge.cli.flags.check import check
from specgauge.cli.flags.show import show
from specgauge.cli.flags.translate import translate


@click.group(
    "flags",
    epilog="\b\nExample:\n  specgauge flags translate "
    "'vllm serve M --speculative-model D --num-speculative-tokens 5' --to 0.33.0",
)
def flags_group() -> None:
    """Translate, show and check the flags of speculation of any vLLM release."""


for _command in (translate, show, check):
    flags_group.add_command(_command)
