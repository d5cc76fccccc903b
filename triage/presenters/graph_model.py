"""Say on pages what the graph network does where SHOW_GRAPH_MODEL is on: its card, and a sentence beside a chance."""

from collections.abc import Iterator
from dataclasses import dataclass

from scoring.formatting import bad_bound, percent
from scoring.queries.types import QueueRow
from scoring.training.graph_card import said_of_promotion
from scoring.training.summary import ShownGraph, ShownTrial
from triage.charts.plot import Table

NOT_TRIED = (
    "GraphSAGE has no card yet: install it with pip install -r requirements/gnn.txt, then run manage.py train, and "
    "manage.py backtest for every label."
)
LABELS = {
    "label_merge": "merged",
    "label_clean_fix": "merged, not reverted, not fixed",
    "label_clean": "merged, not reverted, not changed again",
}
SCOPES = {"person": "of the author alone", "change": "with the change"}
GROUPS = {"all": "everybody", "outside": "without push access"}
TRIALS = (
    "Tried on",
    "Cases",
    "AUC",
    "Gain in log-loss",
    "95 % interval",
    "Gain over the blend in the quarters after it",
    "Spread of its AUC over seeds",
    "Most that anybody gains alone",
    "The rule",
)
RINGS = (
    "Simulated network",
    "AUC",
    "AUC of the blend",
    "Gain over the blend",
    "AUC without neighbours",
    "Gain by hearing neighbours",
)


@dataclass(frozen=True, slots=True)
class GraphCard:
    """The card: an answer, further sentences, and tables; without trials only the answer."""

    answer: str
    said: tuple[str, ...] = ()
    trained: Table | None = None
    judged: Table | None = None
    rings: Table | None = None


def graph_card(trained: ShownGraph | None, judged: ShownGraph | None) -> GraphCard:
    """Return the card of what a training stored and of the newest backtest that tried it."""
    cards = [card for card in (trained, judged) if card is not None]
    if not cards:
        return GraphCard(NOT_TRIED)
    newest = max(cards, key=lambda card: card.at)
    said = (*_said(trained), "Free vouches, free pull requests and fake repositories are heard by nobody.")
    tables = (_trials(card) if card else None for card in (trained, judged))
    return GraphCard(said_of_promotion(newest), said, *tables, _rings(newest) if newest.rings else None)


def graph_words(row: QueueRow) -> str:
    """Return the sentence beside the served chance of a pull request; "" where either is not known."""
    if row.graph is None or row.verdict.estimate.probability is None:
        return ""
    return f"GraphSAGE, which decides nothing: {percent(row.graph)}."


def _said(trained: ShownGraph | None) -> Iterator[str]:
    if trained is None:
        yield "No network is stored: run manage.py train where requirements/gnn.txt is installed."
    elif trained.times is not None:
        times = trained.times
        yield f"One fit took {times.fit_seconds:.0f} s, and one pull request takes {times.one_ms:.1f} ms."
        yield f"{times.stored_bytes / 1e6:.1f} MB of weights and states are stored."


def _trials(card: ShownGraph) -> Table:
    rows = [_trial_row(trial) for trial in card.trials]
    filled = [place for place in range(len(TRIALS)) if any(row[place] for row in rows)]
    return Table(tuple(TRIALS[place] for place in filled), tuple(tuple(row[place] for place in filled) for row in rows))


def _trial_row(trial: ShownTrial) -> tuple[str, ...]:
    low, high = trial.gain_low, trial.gain_high
    return (
        f"{LABELS.get(trial.label, trial.label)}, {SCOPES[trial.scope]}, {GROUPS[trial.group]}",
        f"{trial.n:,}",
        _figure(trial.auc, ".3f"),
        _figure(trial.gain, "+.3f"),
        "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}",
        "" if trial.later is None else "{:+.3f}, {:+.3f} to {:+.3f}".format(*trial.later),
        _figure(trial.seed_spread, ".3f"),
        bad_bound(trial.self_lift) if trial.scope == "person" else "",  # of a change it is capped, not measured
        trial.why,
    )


def _rings(card: ShownGraph) -> Table:
    def gain(edges: tuple[float, float]) -> str:
        return f"{edges[0]:+.3f} to {edges[1]:+.3f}"

    rows = (
        (
            f"{ring.n:,} cases",
            f"{ring.graph:.3f}",
            f"{ring.blend:.3f}",
            gain(ring.over_blend),
            f"{ring.unheard:.3f}",
            gain(ring.over_unheard),
        )
        for ring in card.rings
    )
    return Table(RINGS, tuple(rows))


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
