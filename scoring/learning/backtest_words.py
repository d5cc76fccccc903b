"""The backtest as a table of plain text. Pure."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from scoring.learning.widths import WIDE

HEADING = f"{'':<34}{'n':>7}{'AUC':>7}{'new':>7}{'Brier':>7}{'log-loss':>10}{'ECE':>7}  95 % band"
RULES = (
    "Lanes by the recipe (chosen monthly at even odds, authors by their design effect alone), and below each, as "
    "certified, by the rule of a real certificate (30 authors, a delta of 5 % spent over all monthly attempts)."
)
NEWCOMERS = (
    "Newcomers beside everybody: the AUC under “new”; in a lane how many of them, and how many of these were bad."
)
LANES = f"{'':<34}{'lane':>6}{'share':>7}{'authors':>8}{'false':>6}{'new, bad':>9}{'really':>8}  {'95 %':<15}plug"
ORDER_RULES = (
    "Orders of the queue. If all waited at once: the share of all bad ones in the first tenth, how much of that tenth "
    "is bad, the share in the first third; the bad ones in the first 10 of 30 successive arrivals. At the recorded "
    "number of verdicts a day, days until one: the median, that of first-timers, their longest, the longest of all."
)
ORDERS = f"{'tenth':>7}{'bad':>7}{'third':>7}{'in 10':>7}{'median':>8}{'new':>7}{'longest':>9}{'of all':>8}"
ORDER_NAMES = {
    "need": "as shown",
    "oldest": "oldest first",
    "risk": "by content risk alone",
    "model": "by the served model alone",
    "random": "at random",
    "best": "best possible",
}
SCOPES = {"change": "with the change", "person": "the person alone"}


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines for a terminal of 100 columns."""
    for label, figures in found["labels"].items():
        test = figures["test"]
        yield f"{label}: test from {test['from'] or 'no settled case'}, served by {test['model']}"
        yield from wrap(NEWCOMERS, 100)
        yield HEADING
        for scope, words in SCOPES.items():
            part = figures if scope == "change" else figures["person"]
            yield from _scope(part, words)
            yield f"  {interval_words(part)}"
        gate = figures["gate"]
        yield _row("gate: the lower of the two", gate["test"])
        yield _row("  newcomers", gate["newcomers"])
        yield _row("  without push-holders", gate["without_push_holders"]["test"])
        yield _row("    newcomers", gate["without_push_holders"]["newcomers"])
        yield from _below(gate["splits"])
        yield from wrap(RULES, 100)
        yield LANES
        for part, words in _lanes(figures):
            for budget, lane in part["budgets"].items():
                yield _lane(f"{words}, budget {float(budget):.0%}", lane)
                yield _lane("  as certified", lane["certificate"])
        for budget, low in gate["without_push_holders"]["t_low"].items():
            yield _low(float(budget), low)
        yield from wrap(ORDER_RULES, 100)
        for part, words in ((figures, "everybody"), (figures["without_push_holders"], "no push-holders")):
            yield f"{words:<34}{ORDERS}"
            yield from (_order(ORDER_NAMES[name], one) for name, one in part["order"].items())
        yield ""


def _scope(part: Mapping[str, Any], words: str) -> Iterator[str]:
    for name, figures in part["models"].items():
        yield _row(f"{words}: {name}", figures)
    yield _row("  newcomers", part["newcomers"])
    outside = part["without_push_holders"]
    for name, figures in outside["models"].items():
        yield _row(f"  without push-holders: {name}", figures)
    yield _row("    newcomers", outside["newcomers"])
    gains = ((part["gain"], "all"), (part["gain_of_newcomers"], "newcomers"), (outside["gain"], "without push-holders"))
    for gain, who in gains:
        yield f"  gain over the shrunk rate, {who}: AUC {_signed(gain['auc'])} {_interval(gain['auc_ci'])}"


def _below(splits: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The splits in which what serves lies below the shrunk rate."""
    for name, split in splits.items():
        if split["log_loss"] is not None and split["log_loss"] < 0:
            sure = "for sure" if split["worse"] else "not for sure"
            gain = f"{_signed(split['log_loss'])} {_interval(split['log_loss_ci'])}"
            yield f"  below the shrunk rate, {sure}: {name} ({split['n']:,}), log-loss {gain}"


def interval_words(part: Mapping[str, Any]) -> str:
    """How sure P(clean) was in the test of one scope, newcomers apart, as a sentence."""
    told = part["venn_abers"]
    return f"Venn-Abers intervals: {_width(told)}; of newcomers {_width(told['newcomers'])}."


def _width(told: Mapping[str, Any]) -> str:
    if told["mean"] is None:
        return "none"
    return f"mean width {told['mean']:.3f}, {told['wide_share']:.0%} wider than {WIDE:g}"


def _lanes(figures: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    yield figures, "everybody"
    yield figures["without_push_holders"], "no push-holders"
    yield figures["gate"], "gate"
    yield figures["gate"]["without_push_holders"], "gate, no push-holders"


def _row(words: str, figures: Mapping[str, Any]) -> str:
    columns = (("auc", 7), ("newcomers_auc", 7), ("brier", 7), ("log_loss", 10), ("ece", 7))
    cells = "".join(_number(figures[name], width) for name, width in columns)
    return f"{words:<34}{figures['n']:>7,}{cells}  {_interval(figures['ece_band'])}"


def _lane(words: str, lane: Mapping[str, Any]) -> str:
    share = f"{lane['lane_share']:.1%}"
    counts = f"{lane['lane']:>6,}{share:>7}{lane['authors']:>8,}{lane['false_approvals']:>6,}"
    newcomers = f"{lane['newcomers']:,}, {lane['newcomers_bad']:,}"
    plain = _share(lane["plug_in_rate"]) if "plug_in_rate" in lane else ""
    return f"{words:<34}{counts}{newcomers:>9}{_share(lane['rate']):>8}  {_shares(lane['rate_ci']):<15}{plain}"


def _low(budget: float, low: Mapping[str, Any]) -> str:
    return (
        f"T_LOW, gate, no push-holders, people with a record, budget {budget:.0%}: {low['sent']:,} of {low['n']:,} "
        f"sent to a person, {_share(low['clean_sent'])} of the clean and {_share(low['bad_sent'])} of the others"
    )


def _order(words: str, one: Mapping[str, Any]) -> str:
    shares = (("tenth", 7), ("tenth_bad", 7), ("third", 7))
    numbers = (("window", 7), ("wait", 8), ("first_timer_wait", 7), ("first_timer_longest", 9), ("longest", 8))
    cells = "".join(f"{_share(one[name]):>{width}}" for name, width in shares)
    return f"  {words:<32}{cells}" + "".join(
        f"{'-' if one[name] is None else f'{one[name]:.1f}':>{width}}" for name, width in numbers
    )


def _number(value: float | None, width: int) -> str:
    return f"{'-' if value is None else f'{value:.3f}':>{width}}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _interval(edges: Any) -> str:
    return "-" if edges[0] is None else f"[{edges[0]:.3f}, {edges[1]:.3f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _shares(edges: Any) -> str:
    return "-" if edges[0] is None else f"[{edges[0]:.1%}, {edges[1]:.1%}]"
