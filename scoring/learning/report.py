"""The backtest as one page of charts that opens without a server: drawn inline, no script, nothing fetched. Pure.

Every name in it is escaped: repositories are named by strangers.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from scoring.learning.backtest_words import interval_words, table
from scoring.learning.measures import Bin
from scoring.learning.weighed import Weighed, summary_plot

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


def page(found: Mapping[str, Any], besides: Mapping[str, Any]) -> str:
    """The report as HTML; `found` and `besides` are what `backtest.run` returns."""
    parts = "\n".join(
        part for label in found["labels"] for part in _label(label, found["labels"][label], besides[label])
    )
    words = escape("\n".join(table(found)))
    return PAGE.format(
        style=STYLE, cases=found["cases"], data=escape(found["data"]), seed=found["seed"], parts=parts, table=words
    )


def _label(label: str, figures: Mapping[str, Any], besides: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2>{escape(label)}</h2>"
    for scope, words in (("change", "with the change"), ("person", "the person alone")):
        part = besides[scope]
        test = figures["test"] if scope == "change" else figures["person"]["test"]
        yield f"<h3>{words}: {escape(test['model'])} serves</h3>"
        yield "".join(f"<p>{escape(one['name'])}: {escape(one['why'])}</p>" for one in part["decision"]["trials"][1:])
        yield "".join(f"<p>{escape(words)}</p>" for words in part["said"])
        yield f"<p>{escape(interval_words(figures if scope == 'change' else figures['person']))}</p>"
        yield _figure(_reliability(part["reliability"]), _calibration_words(test, part["corp"]))
        yield _figure(_quarters(part["auc"]), "AUC of each quarter: " + _legend(part["auc"]))
    yield _figure(_lanes(figures["without_push_holders"]["budgets"]), "What each budget really gave, no push-holders.")
    yield _summary(besides["weighed"])


def _summary(found: Weighed | None) -> str:
    """shap's summary plot as an image in the page."""
    if found is None:
        return "<p>No trees could be fitted, so there is nothing of what they weigh.</p>"
    words = (
        f"What the trees of the newest quarter weigh in {len(found.shares):,} cases of the test: a point a case, to "
        "the right what raises the chance to stay clean, red where the value is high."
    )
    data = b64encode(summary_plot(found)).decode()
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


def _reliability(bins: Sequence[Bin]) -> str:
    marks = [_axes(0.0, 1.0), _line([(0.0, 0.0), (1.0, 1.0)], "#999")]
    for one in bins:
        x, low, high = _x(one.told), _y(one.low), _y(one.high)
        marks.append(f'<line x1="{x}" x2="{x}" y1="{low}" y2="{high}" stroke="#bbb" stroke-width="6"/>')
        marks.append(f'<circle cx="{x}" cy="{_y(one.came)}" r="4" fill="#2a6f97"/>')
    return "".join(marks)


def _quarters(models: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    names = sorted({quarter for values in models.values() for quarter, _ in values})
    places = {name: place / max(len(names) - 1, 1) for place, name in enumerate(names)}
    marks = [_axes(0.0, 1.0)]
    for model, values in models.items():
        marks.append(_line([(places[quarter], value) for quarter, value in values], COLOURS.get(model, "#555")))
    if names:
        marks.append(f'<text x="{EDGE}" y="{SIDE - 8}">{escape(names[0])}</text>')
        marks.append(f'<text x="{SIDE - EDGE}" y="{SIDE - 8}" text-anchor="end">{escape(names[-1])}</text>')
    return "".join(marks)


def _lanes(budgets: Mapping[str, Mapping[str, Any]]) -> str:
    marks, step = [_axes(0.0, 0.3)], INNER / max(len(budgets), 1)
    for place, (budget, lane) in enumerate(budgets.items()):
        x = EDGE + step * (place + 0.5)
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
