"""The cost of reviews: the models' prices and fields, and the gate that decides who reads a change. Pure.

Sources of the table: the models' overview pages and the migration note of API version 2026-10-21, read on AS_OF. That
version takes no sampling parameter from any model; version 2023-06-01 still takes a temperature from those of before
Opus 4.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from math import inf
from typing import Literal

from scoring.config.repository import Mode

AS_OF = date(2026, 11, 20)
API_VERSION = "2026-10-21"  # what the SDK sends by itself
SAMPLING_VERSION = "2023-06-01"  # the last that takes a temperature
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Billed tokens of one or more calls; tokens written to or read from a cache are not in `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
        )


@dataclass(frozen=True, slots=True)
class Capability:
    """The fields that one model's API takes. `cache_floor` is the shortest prefix in tokens that it caches.

    `temperature` None: the request names none, since the model would refuse it with a 400.
    """

    temperature: float | None
    cache_floor: int
    context_tokens: int

    @property
    def api_version(self) -> str:
        return API_VERSION if self.temperature is None else SAMPLING_VERSION


# The floor of Sonnet 4.6 is documented as 1,024; users saw 2,048, and a marker below the floor costs nothing.
CAPABILITIES = {
    "claude-sonnet-4-6": Capability(0.0, 2_048, 1_000_000),
    "claude-haiku-4-5": Capability(0.0, 4_096, 200_000),
    "claude-haiku-4-5-20251001": Capability(0.0, 4_096, 200_000),
    "claude-opus-4-8": Capability(None, 1_024, 1_000_000),
}
# A model that is not listed: no temperature, which every model takes, and the narrowest window and highest floor.
UNKNOWN = Capability(None, 4_096, 200_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_write: float
    cache_read: float

    def dollars(self, usage: Usage) -> float:
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_write_tokens * self.cache_write
            + usage.cache_read_tokens * self.cache_read
        ) / MILLION

    def most(self, tokens: int, answer_tokens: int) -> float:
        """Return the highest possible cost of so many input and answer tokens, however the input is billed."""
        dearest = max(self.input, self.cache_write, self.cache_read)
        return (tokens * dearest + answer_tokens * self.output) / MILLION


def capability(model: str) -> Capability:
    return CAPABILITIES.get(model, UNKNOWN)


def parse_prices(lines: list[str]) -> Mapping[str, Price]:
    """Parse prices `model=input/output/cache write/cache read` in dollars for a million tokens.

    Raises ValueError, in a sentence, for a line of another shape and for numbers below zero or beyond 10,000.
    """
    return dict(_parse_price(line) for line in lines)


def _parse_price(line: str) -> tuple[str, Price]:
    model, _, numbers = line.partition("=")
    try:
        prices = [float(number) for number in numbers.split("/")]
    except ValueError:
        prices = []
    if not model or len(prices) != 4 or not all(0 <= number <= 10_000 for number in prices):
        raise ValueError(f"{line!r} is not a price such as claude-sonnet-4-6=3/15/3.75/0.3")
    return model, Price(*prices)


Reason = Literal[
    "review_off",
    "claude_off",
    "no_key",
    "trusted",
    "trusted_but_sensitive",
    "between_thresholds",
    "below_t_low",
    "fast_lane_shut",
    "over_budget",
    "over_repository_budget",
    "base_elsewhere",
]


class Call(StrEnum):
    """The reader of a change beside the scanners.

    NOBODY: findings count and are shown, without a content verdict. DETERMINISTIC: the findings alone are the verdict.
    SCREEN: the small model first, which may only facts for the full reading. CLAUDE: the full reading. MISSING: a
    reading is wanted and no budget is left, so there is no content verdict.
    """

    NOBODY = "nobody"
    DETERMINISTIC = "deterministic"
    SCREEN = "screen"
    CLAUDE = "claude"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class GateFacts:
    """The facts about one change before any call.

    `structural_trust` in [0, 1] is that of its author from the target repository's seeds, `sensitive` whether the diff
    touches a path that is always read. `spent` and `budget` are dollars of the present day for the whole site,
    `repository_spent` and `repository_budget` for the target repository. `base_stands` is false where the change is
    compared with a commit that is not known to be on the target branch.
    """

    mode: Mode
    structural_trust: float
    sensitive: bool
    has_key: bool
    screens: bool = False
    spent: float = 0.0
    budget: float = 0.0
    repository_spent: float = 0.0
    repository_budget: float = inf
    base_stands: bool = True


def decide(facts: GateFacts, t_low: float | None, t_high: float | None) -> tuple[Call, Reason]:
    """Return the reader and the reason.

    Trust at or above `t_high` makes a reading unnecessary, unless the diff is sensitive; without a `t_high` no trust
    does. Below `t_low` a reading gives a concrete reason; it never raises a change. Raises ValueError for NaN, for
    trust outside [0, 1] and for dollars below zero.
    """
    _check(facts)
    if not facts.base_stands:
        return Call.DETERMINISTIC, "base_elsewhere"
    if facts.mode == "off":
        return Call.NOBODY, "review_off"
    if facts.mode == "deterministic":
        return Call.DETERMINISTIC, "claude_off"
    if not facts.has_key:
        return Call.DETERMINISTIC, "no_key"
    reason = _reason_to_read(facts, t_low, t_high)
    spent_budget = _spent_budget(facts)
    if reason == "trusted":
        return (Call.SCREEN if facts.screens and spent_budget is None else Call.DETERMINISTIC), reason
    return (Call.CLAUDE, reason) if spent_budget is None else (Call.MISSING, spent_budget)


def _spent_budget(facts: GateFacts) -> Reason | None:
    """Return the reason of the budget that is used up; None if both have dollars left."""
    if facts.repository_spent >= facts.repository_budget:
        return "over_repository_budget"
    return "over_budget" if facts.spent >= facts.budget else None


def _reason_to_read(facts: GateFacts, t_low: float | None, t_high: float | None) -> Reason:
    if t_high is not None and facts.structural_trust >= t_high:
        return "trusted_but_sensitive" if facts.sensitive else "trusted"
    if t_low is not None and facts.structural_trust < t_low:
        return "below_t_low"
    return "fast_lane_shut" if t_high is None else "between_thresholds"


def _check(facts: GateFacts) -> None:
    if not 0 <= facts.structural_trust <= 1:  # also true of NaN
        raise ValueError(f"structural trust must be a number in [0, 1], not {facts.structural_trust}")
    dollars = (facts.spent, facts.budget, facts.repository_spent, facts.repository_budget)
    if not all(amount >= 0 for amount in dollars):
        raise ValueError(f"dollars must be numbers from 0 up, not {', '.join(map(str, dollars))}")
