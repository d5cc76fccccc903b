"""Formats figures, rounded so that they never contradict a threshold, and names, with hidden characters shown. Pure."""

import unicodedata
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import floor
from typing import Any

from scoring.types import Param

LONGEST_NAME = 80  # characters; a handle may have 253 and a did:web 2,000


def percent(chance: float) -> str:
    """Format a chance in whole percents, rounded down so that it never seems to reach a threshold: .899 is "89 %"."""
    return f"{percents(chance)} %"


def percents(chance: float) -> int:
    """Return the number of `percent`."""
    return int(_floor(chance, 2) * 100)


def percent_interval(low: float, high: float) -> str:
    """Format the interval of a chance in whole percents, rounded outwards, with a dash between the ends."""
    below, above = percent_ends(low, high)
    return f"{below}\N{EN DASH}{above}"


def percent_ends(low: float, high: float) -> tuple[int, int]:
    """Return the numbers of `percent_interval`."""
    return percents(low), int(_ceil(high, 2) * 100)


def risk_percent(risk: float) -> str:
    """Format a risk in whole percents, rounded up so that it never looks like a limit that it broke: .201 is "21 %"."""
    return f"{int(_ceil(risk, 2) * 100)} %"


def bad_percent(share: float) -> str:
    """Format a counted share of bad ones in percents with one decimal, rounded to the nearest: 3 of 14 is "21.4 %"."""
    return f"{100 * share:.1f} %"


def bad_bound(share: float) -> str:
    """Format a bound on a share of bad ones, or one beside its limit, in percents, rounded up: .0401 is "4.1 %"."""
    return f"{one_decimal_up(100 * share)} %"


def bad_interval(low: float, high: float) -> str:
    """Format the interval of a share of bad ones in percents with one decimal, rounded outwards, with a dash."""
    return f"{100 * _floor(low, 3):.1f}\N{EN DASH}{one_decimal_up(100 * high)}"


def one_decimal_up(number: float) -> str:
    """Format a number with one decimal, rounded up, so that a count of bad ones is never too small."""
    return f"{_ceil(number, 1):,}"


def percent_in_full(bound: float) -> str:
    """Format a bound that was set, such as a threshold or budget, in percents with all digits: .905 is "90.5 %"."""
    return f"{(100 * Decimal(str(bound))).normalize():f} %"


def budget_percent(budget: float) -> str:
    """Format a budget in percents; the end of an interval is rounded up: .228284 is "22.9 %", .05 is "5 %"."""
    return percent_in_full(budget) if round(budget, 3) == budget else bad_bound(budget)


def trust_figure(trust: float) -> str:
    """Format structural trust, which is not a chance, with two decimals, rounded down: .389 is "0.38"."""
    return f"{_floor(trust, 2)}"


def trust_bound(bound: float) -> str:
    """Format a bound of trust with all digits, at least two decimals."""
    exact = Decimal(str(bound))
    return f"{exact:f}" if exact != exact.quantize(Decimal("0.01")) else f"{exact:.2f}"


def basis_points(probability: float) -> int:
    """Return a probability in hundredths of a per cent, rounded down."""
    return int(_floor(probability, 4) * 10_000)


def _floor(probability: float, digits: int) -> Decimal:
    """Cut the decimal number after `digits` decimals: 0.29 stays 0.29, which 0.29 * 100 would not."""
    return Decimal(str(probability)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)


def _ceil(number: float, digits: int) -> Decimal:
    """Round a number up after `digits` decimals; errors behind nine decimals are dropped (0.1 + 0.2 is 0.3)."""
    return Decimal(str(round(number, 9))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)


def visible(text: str) -> str:
    """Spell out control, bidirectional and zero-width characters of a text from the network as ⟨U+202E⟩.

    A joiner inside an emoji stays, since it is part of a visible picture.
    """
    if text.isprintable():  # without hidden characters 50 times faster, and a page of the queue calls this 400 times
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩" if _is_hidden(text, index) else character for index, character in enumerate(text)
    )


def _is_hidden(text: str, index: int) -> bool:
    character = text[index]
    if character == "\u200d" and index and unicodedata.category(text[index - 1]) in ("So", "Sk", "Mn"):
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cn", "Cs", "Co", "Zl", "Zp")


def visible_name(value: Param) -> str:
    """Return a name from the network fit to be shown: hidden characters spelled out, plain spaces, cut."""
    spelled = visible(str(value))
    name = "".join(" " if unicodedata.category(character) == "Zs" else character for character in spelled)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def number_of(value: Param) -> float:
    """Return a parameter that must be a number; ValueError for another value."""
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"a number was expected, not {value!r}")


def count_of(value: Param) -> int:
    """Return a parameter that must be a count; ValueError for another value."""
    return int(number_of(value))


def weighted(count: float) -> str:
    """Return a sum of weights as the nearest whole number of pull requests, but never as 0 where there is some."""
    return f"{max(floor(count + 0.5), 1 if count > 0 else 0):,}"


def things(count: int, thing: str, many: str = "") -> str:
    """Return '1 pull request', '2,000 pull requests'; `many` is the plural where adding an s is wrong."""
    return f"{count:,} {thing if count == 1 else many or f'{thing}s'}"


def display_name(row: Mapping[str, Any]) -> str:
    """Return the handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"
