"""The keys of one rule of `routing.rules`: what a request must be like, and who serves it then.

Single keys are checked here, and what a rule in itself cannot be.
"""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from specgauge.config.routing_fields import (
    Answer,
    Bound,
    ClassName,
    HeaderName,
    HeaderValue,
    PathStart,
    Pattern,
    Plain,
    PoolName,
    RouteName,
)
from specgauge.config.section import SETTINGS


class RangeKeys(BaseModel):
    """Where a number must lie."""

    model_config = SETTINGS

    above: Bound = Field(default=None, description="It must be greater.")
    at_least: Bound = Field(default=None, description="It must be this or greater.")
    below: Bound = Field(default=None, description="It must be less.")
    at_most: Bound = Field(default=None, description="It must be this or less.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if all(bound is None for _, bound in self):
            raise ValueError("set one of above, at_least, below, at_most")
        lows = [low for low in (self.above, self.at_least) if low is not None]
        highs = [high for high in (self.below, self.at_most) if high is not None]
        if lows and highs and max(lows) >= min(highs):
            strict = max(lows) == self.above or min(highs) == self.below
            if strict or max(lows) > min(highs):
                raise ValueError("no number lies within these bounds")
        return self


class LoadKeys(BaseModel):
    """Requests in decode up to which the speculative pool is used."""

    model_config = SETTINGS

    at_most: Bound = Field(default=4.0, description="Above it, requests go to the standard pool.")
    resume: Bound = Field(
        default=None, description="Load at which they come back; by default three quarters of it."
    )

    @model_validator(mode="after")
    def _below(self) -> Self:
        if self.at_most is None or (self.resume is not None and self.resume > self.at_most):
            raise ValueError("resume must not be above at_most")
        return self


class HeaderKeys(BaseModel):
    """A header of the application."""

    model_config = SETTINGS

    name: HeaderName = Field(description="Its name, in any case.")
    values: tuple[HeaderValue, ...] = Field(
        default=(), description="Values of which it must have one, to the letter."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.values:
            raise ValueError("values: name at least one")
        return self


class WhenKeys(BaseModel):
    """What a request must be like; every condition that is there must hold."""

    model_config = SETTINGS

    temperature: RangeKeys | None = Field(default=None, description="Temperature it asks for.")
    max_tokens: RangeKeys | None = Field(
        default=None,
        description="Length it asks for: max_completion_tokens, max_tokens or max_output_tokens.",
    )
    prompt_characters: RangeKeys | None = Field(
        default=None, description="Characters of all the texts of its prompt."
    )
    stream: Answer = Field(default=None, description="Whether it asks for a stream.")
    structured_output: Answer = Field(
        default=None, description="Whether its output must fit a schema, grammar or choice."
    )
    tools: Answer = Field(default=None, description="Whether it may call tools.")
    routes: tuple[RouteName, ...] = Field(
        default=(), description="Routes: chat, completions, responses, embeddings, other."
    )
    paths: tuple[PathStart, ...] = Field(default=(), description="Beginnings of its path.")
    models: tuple[Plain, ...] = Field(default=(), description="Names of models.")
    header: HeaderKeys | None = Field(default=None, description="A header of the application.")
    patterns: tuple[Pattern, ...] = Field(
        default=(), description="Patterns of which one is in its prompt: code_fence, latex."
    )
    contains: tuple[Plain, ...] = Field(
        default=(), description="Texts of which one is in its prompt, to the letter."
    )
    decode_concurrency: LoadKeys | None = Field(
        default=None,
        description="Live load up to which the class is served with speculation; for pool: "
        "speculative only.",
    )


class RuleKeys(BaseModel):
    """One class of traffic."""

    model_config = SETTINGS

    name: ClassName = Field(description="What the class is called in headers, logs and labels.")
    when: WhenKeys = Field(
        default_factory=WhenKeys, description="What a request must be like; nothing takes all."
    )
    pool: PoolName = Field(description="Who serves the class: speculative or standard.")

    @model_validator(mode="after")
    def _loaded(self) -> Self:
        if self.when.decode_concurrency is not None and self.pool == "standard":
            raise ValueError(
                "when.decode_concurrency: is for pool: speculative, which is left above it"
            )
        return self
