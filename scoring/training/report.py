"""Renders the backtest as one page of charts that opens without a server, and as a table of plain text. Pure.

Charts are inline, without scripts or requests. Every name is escaped, since strangers name repositories.

shap's summary plot shows the weights of the newest quarter's trees. The shares of each case are LightGBM's own exact
Shapley values, equal to shap's to 1e-9 (a test compares them).
"""

import io
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill, wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.explain.sentences import factor_label
from scoring.models.base import Estimator, Floats
from scoring.models.contributions import contributions
from scoring.models.estimators import Boosted
from scoring.training.metrics import WIDE, Bin

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


def table(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for a terminal of 100 columns."""
    for label, figures in result["labels"].items():
        test = figures["test"]
        yield f"{label}: test from {test['from'] or 'no settled case'}, served by {test['model']}"
        yield from wrap(NEWCOMERS, 100)
        yield HEADING
        for scope, words in SCOPES.items():
            scope_figures = figures if scope == "change" else figures["person"]
            yield from _scope_lines(scope_figures, words)
            yield f"  {interval_words(scope_figures)}"
        gate = figures["gate"]
        yield _figures_line("gate: the lower of the two", gate["test"])
        yield _figures_line("  newcomers", gate["newcomers"])
        yield _figures_line("  who cannot push", gate["without_push_holders"]["test"])
        yield _figures_line("    newcomers", gate["without_push_holders"]["newcomers"])
        yield from _lines_below_rate(gate["splits"])
        yield from wrap(RULES, 100)
        yield LANES
        for scope_figures, words in _named_lanes(figures):
            for budget, lane in scope_figures["budgets"].items():
                yield _lane_line(f"{words}, budget {float(budget):.0%}", lane)
                yield _lane_line("  as certified", lane["certificate"])
        for budget, low in gate["without_push_holders"]["t_low"].items():
            yield _low_line(float(budget), low)
        yield from wrap(ORDER_RULES, 100)
        for scope_figures, words in ((figures, "everybody"), (figures["without_push_holders"], "who cannot push")):
            yield f"{words:<34}{ORDERS}"
            yield from (
                _order_line(ORDER_NAMES[name], order_result) for name, order_result in scope_figures["order"].items()
            )
        yield ""


def _scope_lines(scope_figures: Mapping[str, Any], words: str) -> Iterator[str]:
    for name, figures in scope_figures["models"].items():
        yield _figures_line(f"{words}: {name}", figures)
    yield _figures_line("  newcomers", scope_figures["newcomers"])
    outside = scope_figures["without_push_holders"]
    for name, figures in outside["models"].items():
        yield _figures_line(f"  who cannot push: {name}", figures)
    yield _figures_line("    newcomers", outside["newcomers"])
    yield from _trial_lines(scope_figures["trials"], "everybody")
    yield from _trial_lines(outside["trials"], "who cannot push")
    yield from _graph_lines(scope_figures, "everybody")
    yield from _graph_lines(outside, "who cannot push")
    gains = (
        (scope_figures["gain"], "all"),
        (scope_figures["gain_of_newcomers"], "newcomers"),
        (outside["gain"], "who cannot push"),
    )
    for gain, group in gains:
        yield f"  gain over the shrunk rate, {group}: AUC {_signed(gain['auc'])} {_interval(gain['auc_ci'])}"


def _trial_lines(decision: Mapping[str, Any], group: str) -> Iterator[str]:
    """Yield a line for each candidate against the model that served before it, with the reason of the rule."""
    yield f"  tried on {decision['n']:,} cases by {decision['authors']:,} authors before the test, {group}:"
    for trial in decision["trials"]:
        figures = f"log-loss{_number(trial['log_loss'], 6)}, AUC{_number(trial['auc'], 6)}"
        if trial["gain"] is not None:
            gain = _interval((trial["gain_low"], trial["gain_high"]))
            figures += f", gain {_signed(trial['gain'])} {gain}"
        if trial["seed_spread"] is not None:
            figures += f", seeds ±{trial['seed_spread']:.4f}, lift {trial['self_lift']:.4f}"
        yield f"    {trial['name']}: {figures}. {trial['why']}"


def _graph_lines(figures: Mapping[str, Any], group: str) -> Iterator[str]:
    for name, gain in figures.get("graph_gain", {}).items():
        loss = f"log-loss {_signed(gain['log_loss'])} {_interval(gain['log_loss_ci'])}"
        auc = f"AUC {_signed(gain['auc'])} {_interval(gain['auc_ci'])}"
        yield f"  gain of graphsage over {name} in the test, {group}: {auc}, {loss}"


def _lines_below_rate(splits: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each split in which the served model is worse than the shrunk rate."""
    for name, split in splits.items():
        if split["log_loss"] is not None and split["log_loss"] < 0:
            sure = "for sure" if split["worse"] else "not for sure"
            gain = f"{_signed(split['log_loss'])} {_interval(split['log_loss_ci'])}"
            yield f"  below the shrunk rate, {sure}: {name} ({split['n']:,}), log-loss {gain}"


def interval_words(scope_figures: Mapping[str, Any]) -> str:
    """Return the widths of the intervals in the test of one scope as a sentence, newcomers separately."""
    widths = scope_figures["venn_abers"]
    return f"Venn-Abers intervals: {_say_width(widths)}; of newcomers {_say_width(widths['newcomers'])}."


def _say_width(widths: Mapping[str, Any]) -> str:
    if widths["mean"] is None:
        return "none"
    return f"mean width {widths['mean']:.3f}, {widths['wide_share']:.0%} wider than {WIDE:g}"


def _named_lanes(figures: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    yield figures, "everybody"
    yield figures["without_push_holders"], "who cannot push"
    yield figures["gate"], "gate"
    yield figures["gate"]["without_push_holders"], "gate, who cannot push"


def _figures_line(words: str, figures: Mapping[str, Any]) -> str:
    columns = (("auc", 7), ("newcomers_auc", 7), ("brier", 7), ("log_loss", 10), ("ece", 7))
    cells = "".join(_number(figures[name], width) for name, width in columns)
    return f"{words:<34}{figures['n']:>7,}{cells}  {_interval(figures['ece_band'])}"


def _lane_line(words: str, lane: Mapping[str, Any]) -> str:
    share = f"{lane['lane_share']:.1%}"
    counts = f"{lane['lane']:>6,}{share:>7}{lane['authors']:>8,}{lane['false_approvals']:>6,}"
    newcomers = f"{lane['newcomers']:,}, {lane['newcomers_bad']:,}"
    plain = _share(lane["plug_in_rate"]) if "plug_in_rate" in lane else ""
    return f"{words:<34}{counts}{newcomers:>9}{_share(lane['rate']):>8}  {_shares(lane['rate_ci']):<15}{plain}"


def _low_line(budget: float, low: Mapping[str, Any]) -> str:
    return (
        f"T_LOW, gate, who cannot push, people with a record, budget {budget:.0%}: {low['sent']:,} of {low['n']:,} "
        f"sent to a person, {_share(low['clean_sent'])} of the clean and {_share(low['bad_sent'])} of the others"
    )


def _order_line(words: str, order_result: Mapping[str, Any]) -> str:
    shares = (("tenth", 7), ("tenth_bad", 7), ("third", 7))
    numbers = (("window", 7), ("wait", 8), ("first_timer_wait", 7), ("first_timer_longest", 9), ("longest", 8))
    cells = "".join(f"{_share(order_result[name]):>{width}}" for name, width in shares)
    return f"  {words:<32}{cells}" + "".join(
        f"{'-' if order_result[name] is None else f'{order_result[name]:.1f}':>{width}}" for name, width in numbers
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


MOST_CASES = 500  # points a row: more would hide each other
MOST_COLUMNS = 12
LINE = 44  # characters of a label's line


@dataclass(frozen=True, slots=True)
class Weighed:
    """The contributions to n cases by the columns `names`: `shares` of the log odds and raw `values`, (n, columns)."""

    names: tuple[str, ...]
    shares: Floats
    values: Floats


def weighed(
    model: Estimator | None, features: Mapping[str, Floats], mask: NDArray[np.bool_], seed: int
) -> Weighed | None:
    """Return the shares of at most MOST_CASES cases of the mask, drawn by the seed; None without fitted trees."""
    positions = np.flatnonzero(mask)
    if not isinstance(model, Boosted) or not len(positions):
        return None
    positions = np.sort(np.random.default_rng(seed).permutation(positions)[:MOST_CASES])
    rows = {name: features[name][positions] for name in model.names_}
    shares = contributions(model, rows)
    return Weighed(shares.names, shares.shares, np.column_stack([rows[name] for name in shares.names]))


def summary_plot(weighed_columns: Weighed) -> bytes:
    """Draw shap's beeswarm as PNG: a point a case, to the right what raises P, coloured by the raw value."""
    import matplotlib as mpl

    mpl.use("Agg")  # draws without a window
    import shap
    from matplotlib import pyplot as plt

    labels = [fill(factor_label(name), LINE) for name in weighed_columns.names]
    explanation = shap.Explanation(values=weighed_columns.shares, data=weighed_columns.values, feature_names=labels)
    state = np.random.get_state()  # shap spreads the points by this generator
    np.random.seed(0)
    figure = plt.figure(figsize=(10, 7), facecolor="white")
    try:
        shap.plots.beeswarm(explanation, max_display=MOST_COLUMNS, show=False, plot_size=None)
        plt.xlabel("Share of the log odds of clean")
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
    finally:
        plt.close(figure)
        np.random.set_state(state)
    return drawn.getvalue()


SIDE, EDGE = 320, 36
INNER = SIDE - 2 * EDGE
COLOURS = {"beta": "#8a6d3b", "logistic": "#2a6f97", "lightgbm": "#2f7d4f", "blend": "#7b3fa0"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b }
figure { display: inline-block; margin: 0 1.5rem 1.5rem 0; vertical-align: top }
figcaption { max-width: 20rem } .wide figcaption { max-width: 40rem } .wide img { max-width: 100% }
pre { overflow-x: auto; font-size: 13px } svg text { font: 11px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { body { background: #16181a; color: #e8e8e8 } svg { background: #fff } }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Backtest</title><style>{style}</style></head><body>
<h1>Backtest</h1>
<p>{cases:,} pull requests, data {data}, seed {seed}. Each was scored by a model that knew only what was known
before its quarter began.</p>
{parts}
<h2>All figures</h2><pre>{table}</pre>
</body></html>
"""


def page(result: Mapping[str, Any], besides: Mapping[str, Any]) -> str:
    """Return the report as HTML; `result` and `besides` come from `backtest.run`."""
    sections = "\n".join(
        section
        for label in result["labels"]
        for section in _label_section(label, result["labels"][label], besides[label])
    )
    words = escape("\n".join(table(result)))
    return PAGE.format(
        style=STYLE,
        cases=result["cases"],
        data=escape(result["data"]),
        seed=result["seed"],
        parts=sections,
        table=words,
    )


def _label_section(label: str, figures: Mapping[str, Any], besides: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2>{escape(label)}</h2>"
    for scope, words in (("change", "with the change"), ("person", "the person alone")):
        chart_data = besides[scope]
        test = figures["test"] if scope == "change" else figures["person"]["test"]
        yield f"<h3>{words}: {escape(test['model'])} serves</h3>"
        yield "".join(
            f"<p>{escape(trial['name'])}: {escape(trial['why'])}</p>" for trial in chart_data["decision"]["trials"][1:]
        )
        yield "".join(f"<p>{escape(words)}</p>" for words in chart_data["said"])
        yield f"<p>{escape(interval_words(figures if scope == 'change' else figures['person']))}</p>"
        yield _figure(_reliability_chart(chart_data["reliability"]), _calibration_words(test, chart_data["corp"]))
        yield _figure(_quarters_chart(chart_data["auc"]), "AUC of each quarter: " + _legend(chart_data["auc"]))
    yield _figure(
        _lanes_chart(figures["without_push_holders"]["budgets"]),
        "What each budget really gave, of people who cannot push.",
    )
    yield _summary(besides["weighed"])


def _summary(weighed_columns: Weighed | None) -> str:
    if weighed_columns is None:
        return "<p>No trees could be fitted, so there is nothing of what they weigh.</p>"
    count = len(weighed_columns.shares)
    words = (
        f"What the trees of the newest quarter weigh in {count:,} cases of the test: a point a case, to "
        "the right what raises the chance to stay clean, red where the value is high."
    )
    data = b64encode(summary_plot(weighed_columns)).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{escape(words)}">'
    return f'<figure class="wide">{image}<figcaption>{escape(words)}</figcaption></figure>'


def _figure(drawing: str, words: str) -> str:
    box = f'viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" height="{SIDE}" role="img"'
    caption = escape(words)
    return f"<figure><svg {box}><title>{caption}</title>{drawing}</svg><figcaption>{caption}</figcaption></figure>"


def _calibration_words(test: Mapping[str, Any], corp: Any) -> str:
    if corp is None:
        return "No settled case to judge."
    inside = test["ece_band"][0] is not None and test["ece"] <= test["ece_band"][1]
    return (
        f"Predicted against observed, with the band of perfect calibration. ECE {test['ece']:.3f}, "
        f"{'inside' if inside else 'outside'} the band to {test['ece_band'][1]:.3f}. Brier score "
        f"{corp.miscalibration:.4f} miscalibration - {corp.discrimination:.4f} discrimination + "
        f"{corp.uncertainty:.4f} uncertainty."
    )


def _reliability_chart(bins: Sequence[Bin]) -> str:
    marks = [_axes(0.0, 1.0), _line([(0.0, 0.0), (1.0, 1.0)], "#999")]
    for bin_ in bins:
        x, low, high = _x(bin_.told), _y(bin_.low), _y(bin_.high)
        marks.append(f'<line x1="{x}" x2="{x}" y1="{low}" y2="{high}" stroke="#bbb" stroke-width="6"/>')
        marks.append(f'<circle cx="{x}" cy="{_y(bin_.came)}" r="4" fill="#2a6f97"/>')
    return "".join(marks)


def _quarters_chart(models: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    names = sorted({quarter for values in models.values() for quarter, _ in values})
    positions = {name: index / max(len(names) - 1, 1) for index, name in enumerate(names)}
    marks = [_axes(0.0, 1.0)]
    for model, values in models.items():
        marks.append(_line([(positions[quarter], value) for quarter, value in values], COLOURS.get(model, "#555")))
    if names:
        marks.append(f'<text x="{EDGE}" y="{SIDE - 8}">{escape(names[0])}</text>')
        marks.append(f'<text x="{SIDE - EDGE}" y="{SIDE - 8}" text-anchor="end">{escape(names[-1])}</text>')
    return "".join(marks)


def _lanes_chart(budgets: Mapping[str, Mapping[str, Any]]) -> str:
    marks, step = [_axes(0.0, 0.3)], INNER / max(len(budgets), 1)
    for index, (budget, lane) in enumerate(budgets.items()):
        x = EDGE + step * (index + 0.5)
        allowed = _y(float(budget) / 0.3)
        marks.append(f'<line x1="{x - 40}" x2="{x + 40}" y1="{allowed}" y2="{allowed}" stroke="#b03a2e"/>')
        marks.append(f'<text x="{x}" y="{SIDE - 8}" text-anchor="middle">budget {float(budget):.0%}</text>')
        for name, value, shift in (("chosen", lane["rate"], -20), ("plug-in", lane["plug_in_rate"], 20)):
            if value is not None:
                y = _y(min(value / 0.3, 1.0))
                marks.append(f'<circle cx="{x + shift}" cy="{y}" r="4" fill="#2a6f97"/>')
                marks.append(f'<text x="{x + shift}" y="{y - 8}" text-anchor="middle">{name} {value:.1%}</text>')
    return "".join(marks)


def _legend(models: Mapping[str, Any]) -> str:
    words = {"#8a6d3b": "brown", "#2a6f97": "blue", "#2f7d4f": "green"}
    return ", ".join(f"{name} {words.get(COLOURS.get(name, ''), 'grey')}" for name in models)


def _axes(low: float, high: float) -> str:
    bottom = SIDE - EDGE
    frame = f'<path d="M{EDGE} {EDGE}V{bottom}H{bottom}" fill="none" stroke="#555"/>'
    ends = f'<text x="4" y="{bottom}">{low:g}</text><text x="4" y="{EDGE + 4}">{high:g}</text>'
    return frame + ends


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    joined = " ".join(f"{_x(x)},{_y(y)}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _x(share: float) -> float:
    return round(EDGE + INNER * share, 1)


def _y(share: float) -> float:
    return round(SIDE - EDGE - INNER * share, 1)
