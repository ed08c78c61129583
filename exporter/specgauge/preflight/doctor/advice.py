"""What each code means for a person: one table, read from the file beside this module."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from specgauge.preflight.doctor.codes import Code, Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a code means.

    `explains` weighs, by symptom, how well it accounts for that; `alone` says that it is worth an
    alarm without any symptom told.
    """

    title: str
    fix: str
    link: str
    explains: Mapping[Symptom, float]
    alone: bool


@cache
def advice() -> Mapping[Code, Advice]:
    """Give the whole table."""
    text = (files(__package__) / "advice.yaml").read_text(encoding="utf-8")
    read: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {
        code: Advice(
            title=read[code]["title"],
            fix=read[code]["fix"],
            link=read[code]["link"],
            explains={Symptom(name): weight for name, weight in read[code]["explains"].items()},
            alone=read[code].get("alone", True),
        )
        for code in Code
    }
