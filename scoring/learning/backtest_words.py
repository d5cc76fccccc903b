"""The backtest as a table of plain text. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

HEADING = f"{'':<34}{'n':>7}{'AUC':>8}{'Brier':>8}{'log-loss':>10}{'ECE':>8}  95 % band"
LANES = f"{'':<34}{'lane':>7}{'share':>8}{'authors':>9}{'false':>7}{'really':>9}  95 % interval     plug-in"
SCOPES = {"change": "with the change", "person": "the person alone"}


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines for a terminal of 100 columns."""
    for label, figures in found["labels"].items():
        test = figures["test"]
        yield f"{label}: test from {test['from'] or 'no settled case'}, served by {test['model']}"
        yield HEADING
        for scope, words in SCOPES.items():
            part = figures if scope == "change" else figures["person"]
            yield from _scope(part, words)
        yield _row("gate: the lower of the two", figures["gate"]["test"])
        yield LANES
        for part, words in _lanes(figures):
            for budget, lane in part["budgets"].items():
                yield _lane(f"{words}, budget {float(budget):.0%}", lane)
        yield ""


def _scope(part: Mapping[str, Any], words: str) -> Iterator[str]:
    for name, figures in part["models"].items():
        yield _row(f"{words}: {name}", figures)
    yield _row("  newcomers", part["newcomers"])
    outside = part["without_push_holders"]
    for name, figures in outside["models"].items():
        yield _row(f"  without push-holders: {name}", figures)
    yield _row("    newcomers", outside["newcomers"])
    for gain, who in ((part["gain"], "all"), (outside["gain"], "without push-holders")):
        yield f"  gain over the shrunk rate, {who}: AUC {_signed(gain['auc'])} {_interval(gain['auc_ci'])}"


def _lanes(figures: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    yield figures, "everybody"
    yield figures["without_push_holders"], "no push-holders"
    yield figures["gate"], "gate"
    yield figures["gate"]["without_push_holders"], "gate, no push-holders"


def _row(words: str, figures: Mapping[str, Any]) -> str:
    cells = (_number(figures["auc"], 8), _number(figures["brier"], 8), _number(figures["log_loss"], 10))
    return (
        f"{words:<34}{figures['n']:>7,}{''.join(cells)}{_number(figures['ece'], 8)}  {_interval(figures['ece_band'])}"
    )


def _lane(words: str, lane: Mapping[str, Any]) -> str:
    share = f"{lane['lane_share']:.1%}"
    counts = f"{lane['lane']:>7,}{share:>8}{lane['authors']:>9,}{lane['false_approvals']:>7,}"
    return f"{words:<34}{counts}{_share(lane['rate']):>9}  {_shares(lane['rate_ci']):<18}{_share(lane['plug_in_rate'])}"


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
