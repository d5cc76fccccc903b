"""A dated table of the reviewing models: the fields that their API takes, and prices. Pure.

Sources: the models' overview pages and the migration note of API version 2026-10-21, read on AS_OF. That version takes
no sampling parameter from any model; version 2023-06-01 still takes a temperature from those of before Opus 4.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

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
        """Return the API version for requests to this model."""
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
        """Return the cost of this usage."""
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
    """Return the fields that this model's API takes."""
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
