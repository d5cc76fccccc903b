"""Figures and names in words: rounded so that they never contradict a threshold, hidden characters told. Pure."""

import unicodedata
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from scoring.types import Param

LONGEST_NAME = 80  # characters; a handle may have 253 and a did:web 2,000


def percent(chance: float) -> str:
    """A chance in whole percents, rounded down, so that it never looks like a threshold it missed: .899 is "89 %"."""
    return f"{percents(chance)} %"


def percents(chance: float) -> int:
    """The number of `percent`."""
    return int(_floor(chance, 2) * 100)


def percent_interval(low: float, high: float) -> str:
    """The ends of the interval of a chance in whole percents, rounded outwards, with a dash between them."""
    below, above = percent_ends(low, high)
    return f"{below}\N{EN DASH}{above}"


def percent_ends(low: float, high: float) -> tuple[int, int]:
    """The numbers of `percent_interval`."""
    return percents(low), int(_ceiled(high, 2) * 100)


def risk_percent(risk: float) -> str:
    """A risk in whole percents, rounded up, so that it never looks like a limit that it broke: .201 is "21 %"."""
    return f"{int(_ceiled(risk, 2) * 100)} %"


def bad_percent(share: float) -> str:
    """A share of bad ones in percents with one decimal, rounded up: .0401 is "4.1 %"."""
    return f"{one_decimal_up(100 * share)} %"


def bad_interval(low: float, high: float) -> str:
    """The ends of the interval of a share of bad ones in percents with one decimal, rounded outwards, with a dash."""
    return f"{100 * _floor(low, 3):.1f}\N{EN DASH}{one_decimal_up(100 * high)}"


def one_decimal_up(number: float) -> str:
    """Return how many are bad, with one decimal, rounded up: never fewer than what is known."""
    return f"{_ceiled(number, 1):,}"


def percent_in_full(bound: float) -> str:
    """A bound that somebody set, such as a threshold or a budget, in percents and in full: .905 is "90.5 %"."""
    return f"{(100 * Decimal(str(bound))).normalize():f} %"


def budget_percent(budget: float) -> str:
    """A budget in percents; one that comes from an interval as the end of that: .228284 is "22.9 %", .05 is "5 %"."""
    return percent_in_full(budget) if round(budget, 3) == budget else bad_percent(budget)


def trust_figure(trust: float) -> str:
    """Structural trust, which is no chance, or another measure with two decimals, rounded down: .389 is "0.38"."""
    return f"{_floor(trust, 2)}"


def trust_bound(bound: float) -> str:
    """Return how much trust is asked for, in full, with at least two decimals."""
    exact = Decimal(str(bound))
    return f"{exact:f}" if exact != exact.quantize(Decimal("0.01")) else f"{exact:.2f}"


def basis_points(probability: float) -> int:
    """A probability in hundredths of a per cent, rounded down."""
    return int(_floor(probability, 4) * 10_000)


def _floor(probability: float, digits: int) -> Decimal:
    """The number that is written, cut after `digits` decimals: 0.29 stays 0.29, which 0.29 * 100 would not."""
    return Decimal(str(probability)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)


def _ceiled(number: float, digits: int) -> Decimal:
    """The number rounded up; what arithmetic adds behind nine decimals is no reason to (0.1 + 0.2 is 0.3)."""
    return Decimal(str(round(number, 9))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)


def visible(text: str) -> str:
    """Text from the network with control, bidirectional and zero-width characters spelled out as ⟨U+202E⟩.

    A joiner inside an emoji stays, since it is part of a picture that a person sees.
    """
    if text.isprintable():  # nothing of it is hidden: 50 times faster, and a page of the queue asks 400 times
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
    """A name from the network as it may be shown: hidden characters spelled out, spaces plain, cut."""
    spelled = visible(str(value))
    name = "".join(" " if unicodedata.category(character) == "Zs" else character for character in spelled)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def number_of(value: Param) -> float:
    """A parameter that must be a number."""
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"a number was expected, not {value!r}")


def count_of(value: Param) -> int:
    """A parameter that must be a count."""
    return int(number_of(value))


def things(count: int, thing: str, many: str = "") -> str:
    """'1 pull request', '2,000 pull requests'; `many` is the plural where an s does not make it."""
    return f"{count:,} {thing if count == 1 else many or f'{thing}s'}"
