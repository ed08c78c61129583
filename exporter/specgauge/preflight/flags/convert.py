"""A speculative_config of one release as another release needs it, and what that changed.

What cannot be said to the other release is left in and named by the check that follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.preflight.flags.finding import Code, Finding, info, warning
from specgauge.preflight.flags.keys import flag_key, underscored
from specgauge.preflight.flags.kinds import whole_of
from specgauge.preflight.flags.methods import family, is_eagle3_named, meant_method
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.schedule import schedule_for
from specgauge.preflight.flags.surface import Key, Surface
from specgauge.units import quote

_THRESHOLD = "disable_by_batch_size"
_SCHEDULE = "num_speculative_tokens_per_batch_size"
_WIDTH = "draft_tensor_parallel_size"
_DEFAULT_LOOKUP = 5


@dataclass(slots=True, kw_only=True)
class Conversion:
    """A configuration on its way to a release; grows findings as it goes."""

    config: dict[str, object]
    surface: Surface
    to: Release
    by_flags: bool
    sizes: Mapping[str, int]
    source_engine: str | None = None
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> None:
        """Convert everything, in the order in which one thing rests on another."""
        self.config = underscored(self.config)
        self._names()
        self._method()
        self._lookup()
        self._width()
        self._threshold()
        self._schedule()
        self._choices()
        self._gone()

    @property
    def method(self) -> str:
        """The method as far as it is known."""
        return meant_method(self.config) or ""

    def _names(self) -> None:
        """Take the names of old flags, and keys that are refused, for the keys they mean."""
        for name in list(self.config):
            key = self.surface.keys.get(name)
            meant = key.instead if key else flag_key(name, self.surface)
            if meant and meant not in self.config:
                self.config[meant] = self.config.pop(name)
                self.findings.append(info(Code.RENAMED, name, f"it is {meant} now"))

    def _method(self) -> None:
        named, method = self.config.get("method"), self.method
        if self.config.get("model") in ("ngram", "[ngram]") and method == "ngram":
            del self.config["model"]
            self.config["method"] = "ngram"
            message = 'the model "[ngram]" is the method ngram'
            self.findings.append(warning(Code.VALUE_CHANGED, "model", message))
        elif method and named is None:
            message = f"none was named; taken for {method}, by the draft's name"
            fix = "" if method != "draft_model" else "name it if the draft is a head"
            self.findings.append(warning(Code.METHOD_INFERRED, "method", message, fix))
            self.config["method"] = method
        if named == "[ngram]":
            self.config["method"] = "ngram"
            self.findings.append(info(Code.METHOD_RENAMED, "method", "[ngram] is ngram"))
        if method in self.surface.mtp_names and self.to >= self.surface.since["mtp_name"]:
            self.config["method"] = "mtp"
            self.findings.append(info(Code.METHOD_RENAMED, "method", f"{method} is mtp now"))
        if is_eagle3_named(self.config):
            model = quote(self.config["model"])
            message = f"{model} is an EAGLE-3 head by its name: method eagle3 instead of eagle"
            self.findings.append(warning(Code.EAGLE3_HEAD, "method", message))
            self.config["method"] = "eagle3"
        if "method" in self.config:  # first, where people look for it
            self.config = {"method": self.config.pop("method"), **self.config}

    def _lookup(self) -> None:
        """Write down what the old flags took where only one end, or none, was given."""
        if self.method != "ngram":
            return
        low, high = (self.config.get(f"prompt_lookup_{end}") for end in ("min", "max"))
        if low is None and high is not None and self.by_flags:
            self.config["prompt_lookup_min"] = 1
            message = "the old flag took 1 where none was given; now it would be the maximum"
            self.findings.append(info(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_min", message))
        elif low is None and high is None:
            self.config["prompt_lookup_max"] = _DEFAULT_LOOKUP
            self.config["prompt_lookup_min"] = _DEFAULT_LOOKUP
            message = "none was given; written down as the 5 and 5 that the engine takes"
            self.findings.append(info(Code.PROMPT_LOOKUP_DEFAULT, "prompt_lookup_max", message))

    def _width(self) -> None:
        width = whole_of(self.config.get(_WIDTH))
        target = self.sizes.get("--tensor-parallel-size", 1)
        since = self.surface.since["same_draft_tensor_parallel"]
        if width != 1 or target == 1 or self.method != "draft_model" or self.to < since:
            return
        del self.config[_WIDTH]
        message = f"{self.to} runs a draft model as wide as its target: {target} instead of 1"
        self.findings.append(warning(Code.VALUE_CHANGED, _WIDTH, message))

    def _threshold(self) -> None:
        """Say `no drafts at this many requests` as the release does, if it does."""
        if self.config.get(_THRESHOLD) is None or not self._is_lost(_THRESHOLD):
            return
        given = self.config.pop(_THRESHOLD)
        before = "" if self.source_engine != "v1" else "; it did nothing before either"
        threshold, k = whole_of(given), whole_of(self.config.get("num_speculative_tokens"))
        key = self.surface.keys[_SCHEDULE]
        usable = threshold is not None and threshold > 1 and k is not None and k > 0
        if self.to not in key.span or not usable or self._is_data_parallel:
            self.findings.append(self._threshold_lost(key, given, before))
            return
        assert threshold is not None
        assert k is not None
        rows = schedule_for(threshold, k, top=self.sizes.get("--max-num-seqs"))
        self.config.setdefault(_SCHEDULE, rows)
        message = f"{_SCHEDULE} says it: no drafts at {threshold} requests and above{before}"
        self.findings.append(warning(Code.REPLACED, _THRESHOLD, message, "measure the threshold"))

    def _threshold_lost(self, key: Key, given: object, before: str) -> Finding:
        fix = f"{_SCHEDULE} does it from {key.span.first} on; before that, part the pools"
        if self._is_data_parallel and self.to in key.span:
            message = "no schedule holds under data parallelism: drafts at every load"
            return warning(Code.SCHEDULE_IGNORED, _THRESHOLD, message, "part the pools")
        if self.to in self.surface.keys[_THRESHOLD].span:
            message = f"{self.to} takes it and V1 does nothing with it{before}; left out"
            return warning(Code.WITHOUT_EFFECT, _THRESHOLD, message, fix)
        message = f"{quote(given)} cannot be said to {self.to}: drafts at every load{before}"
        return warning(Code.VANISHED, _THRESHOLD, message, fix)

    @property
    def _is_data_parallel(self) -> bool:
        return self.sizes.get("--data-parallel-size", 1) > 1

    def _schedule(self) -> None:
        since = self.surface.since["schedule_off_in_data_parallel"]
        if self.config.get(_SCHEDULE) is None or not self._is_data_parallel or self.to < since:
            return
        del self.config[_SCHEDULE]
        message = "ignored under data parallelism; left out"
        self.findings.append(warning(Code.SCHEDULE_IGNORED, _SCHEDULE, message, "part the pools"))

    def _choices(self) -> None:
        """Say values by the names that the release has for them."""
        for sides in self.surface.synonyms:
            now = next((side for side in sides if self._says(side)), None)
            if now is None or self._takes(now):
                continue
            then = next((side for side in sides if self._takes(side)), None)
            if then is None:
                continue
            for key in now:
                del self.config[key]
            self.config.update(then)
            message = f"{_told(now)} is {_told(then)} in {self.to}"
            self.findings.append(warning(Code.VALUE_CHANGED, next(iter(now)), message))

    def _says(self, side: Mapping[str, str]) -> bool:
        return all(self.config.get(key) == value for key, value in side.items())

    def _takes(self, side: Mapping[str, str]) -> bool:
        return all(
            self.to in self.surface.choices[key][value] and self.to in self.surface.keys[key].span
            for key, value in side.items()
        )

    def _gone(self) -> None:
        """Leave out what a release has no more or does nothing with."""
        for name in list(self.config):
            key = self.surface.keys.get(name)
            if key is None or name not in self.surface.gone or not self._is_lost(name):
                continue
            value = self.config.pop(name)
            why = self.surface.gone[name]
            code = Code.VANISHED if key.span.is_gone_by(self.to) else Code.WITHOUT_EFFECT
            if value == "typical_acceptance_sampler":
                code = Code.SAMPLER_GONE
            self.findings.append(warning(code, name, f"left out: {why}"))

    def _is_lost(self, name: str) -> bool:
        key = self.surface.keys[name]
        if key.span.is_gone_by(self.to):
            return True
        method = family(self.method, self.surface)
        on_v1 = self.surface.engine_of(self.to, method, asked_v1=False) == "v1"
        return key.v0_only and on_v1 and self.to in key.span


def _told(side: Mapping[str, str]) -> str:
    return " with ".join(f"{key} {value}" for key, value in side.items())
