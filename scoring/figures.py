"""Figures and names in words: rounded so that they never contradict a threshold, hidden characters told. Pure."""

import unicodedata
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from scoring.verdict import Param

LONGEST_NAME = 80  # characters; a handle may have 253 and a did:web 2,000


def shown(probability: float) -> str:
    """A probability with two decimals, rounded down: .899 is "0.89", so it never looks like a threshold it missed."""
    return f"{_floor(probability, 2)}"


def percent(share: float) -> str:
    """A chance in whole percents, rounded down like `shown`: .899 is "89 %"."""
    return f"{percents(share)} %"


def percents(share: float) -> int:
    """The number of `percent`."""
    return int(_floor(share, 2) * 100)


def percent_interval(low: float, high: float) -> str:
    """The ends of an interval in whole percents, rounded outwards, with a dash between them."""
    below, above = hundredths(low, high)
    return f"{below}\N{EN DASH}{above} %"


def one_decimal_up(share: float) -> str:
    """How many or what share is bad, with one decimal, rounded up: never fewer than what is known."""
    return f"{Decimal(str(round(share, 9))).quantize(Decimal('0.1'), rounding=ROUND_CEILING)}"


def shown_against(probability: float, threshold: float) -> str:
    """`shown`, with as many decimals as it takes to stand on the true side of a finer threshold (.907 against .905)."""
    exact = Decimal(str(probability))
    for digits in range(2, 8):
        floored = _floor(probability, digits)
        if (floored >= Decimal(str(threshold))) == (probability >= threshold):
            return f"{floored}"
    return f"{exact:f}"


def shown_interval(low: float, high: float) -> str:
    """The ends of an interval with two decimals, rounded outwards: what is shown is never surer than what is known."""
    below, above = hundredths(low, high)
    return f"{below / 100:.2f}\N{EN DASH}{above / 100:.2f}"


def hundredths(low: float, high: float) -> tuple[int, int]:
    """The ends of an interval in whole hundredths, rounded outwards."""
    above = Decimal(str(high)).quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    return int(_floor(low, 2) * 100), int(above * 100)


def shown_threshold(threshold: float) -> str:
    """A threshold in full, with at least two decimals."""
    exact = Decimal(str(threshold))
    return f"{exact:f}" if exact != exact.quantize(Decimal("0.01")) else f"{exact:.2f}"


def percent_against(share: float, threshold: float) -> str:
    """`shown_against` in percents: .907 against .905 is "90.7 %"."""
    return _in_percents(shown_against(share, threshold))


def percent_threshold(threshold: float) -> str:
    """`shown_threshold` in percents: .905 is "90.5 %"."""
    return _in_percents(shown_threshold(threshold))


def _in_percents(written: str) -> str:
    return f"{(100 * Decimal(written)).normalize():f} %"


def basis_points(probability: float) -> int:
    """A probability in hundredths of a per cent, rounded down."""
    return int(_floor(probability, 4) * 10_000)


def _floor(probability: float, digits: int) -> Decimal:
    """The number that is written, cut after `digits` decimals: 0.29 stays 0.29, which 0.29 * 100 would not."""
    return Decimal(str(probability)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)


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


def things(count: int, thing: str) -> str:
    """'1 pull request', '2 pull requests'."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
