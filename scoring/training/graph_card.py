"""Writes the card of the graph network: its trials, what it gains on planted rings, its attacks, times and limits."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ingest.files import write_whole
from scoring.formatting import bad_bound
from scoring.thresholds import MOST_LIFT
from scoring.training.summary import (
    GRAPH,
    GRAPH_FILE,
    GRAPH_FORM,
    ShownGraph,
    ShownRings,
    ShownTrial,
    shown_trial,
    write_summary,
)

RINGS = Path(__file__).with_name("graph_rings.json")  # python -m tests.bench.bench_graph --write
SCOPES = {"person": "the next change of a contributor", "change": "one pull request"}
GROUPS = {"all": "everybody", "outside": "people who may not push"}


def rings() -> tuple[ShownRings, ...]:
    """Return what the network gained on simulated networks with planted rings when that was last measured."""
    return msgspec.json.decode(RINGS.read_bytes(), type=tuple[ShownRings, ...])


def card_of_backtest(results: Mapping[str, Any], seeds: int, moment: datetime) -> ShownGraph | None:
    """Return the trials in the results of `backtest.run`; None where the network was not tried."""
    trials = []
    for label, figures in results["labels"].items():
        for scope, its in (("change", figures), ("person", figures["person"])):
            for group, part in (("all", its), ("outside", its["without_push_holders"])):
                trial = shown_trial(part["trials"], label, scope, group)
                trials.append(trial and msgspec.structs.replace(trial, later=_gain_later(part)))
    tried = tuple(trial for trial in trials if trial is not None)
    at = moment.replace(microsecond=0)
    return ShownGraph(GRAPH_FORM, at, results["cases"], seeds, tried, rings()) if tried else None


def _gain_later(figures: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return the gain in log-loss over the blend in the judged quarters, with its interval."""
    gain = figures.get("graph_gain", {}).get("blend")
    return None if gain is None or gain["log_loss"] is None else (gain["log_loss"], *gain["log_loss_ci"])


def write_graph_backtest(folder: Path, card: ShownGraph) -> None:
    """Write the trial of a backtest and its card over the earlier ones. Raises OSError."""
    write_summary(folder / GRAPH_FILE, card)
    write_whole(folder / f"{GRAPH}.md", card_text(card).encode())


def card_text(card: ShownGraph) -> str:
    return "\n".join(_lines(card)) + "\n"


def _lines(card: ShownGraph) -> Iterator[str]:
    yield "# GraphSAGE"
    yield ""
    yield f"Tried {card.at.isoformat()} (UTC) on {card.cases:,} pull requests, as the mean of {card.seeds} seeds."
    yield "It hears what others merged: of the author, in the repository, and of people who vouch for the author."
    yield f"{said_of_promotion(card)} It judges no person and blocks nobody."
    for trial in card.trials:
        yield ""
        yield f"## {trial.label}: {SCOPES[trial.scope]}, {GROUPS[trial.group]}"
        yield ""
        yield from trial_lines(trial)
    yield ""
    if card.rings:
        yield "## Where it should gain: simulated networks with planted rings"
        yield ""
        yield from (ring_line(ring) for ring in card.rings)
        yield ""
    yield "## Attacks"
    yield ""
    lifts = [trial.self_lift for trial in card.trials if trial.scope == "person"]  # of a change it is not measured
    if lifts:
        yield f"- The most that anybody gained alone: {max(lifts):.3f}; above {MOST_LIFT} it is refused."
    yield "- Open, refused and self-merged pull requests, vouches of people without merged work, and repositories whose"
    yield "  owner nobody trusts are heard by nobody: free ones move no chance, whatever was learned."
    if card.times:
        yield ""
        yield "## Times"
        yield ""
        yield f"- one fit of one net: {card.times.fit_seconds} s; one pull request: {card.times.one_ms} ms"
        yield f"- weights and states: {card.times.stored_bytes / 1e6:.1f} MB"
    yield ""
    yield "A merge since the training has no state yet and is heard from the next training on. It explains nothing of"
    yield "its own; handles, locale and texts are not used."


def said_of_promotion(card: ShownGraph) -> str:
    """Say in one sentence what the one rule made of it."""
    decided = [trial for trial in card.trials if trial.group == "all"]
    passed = sum(trial.promoted for trial in decided)
    if not decided:
        return "No trial had cases to judge it on: it decides nothing."
    if not passed:
        return f"The rule refused it in {len(decided)} of {len(decided)} trials: it decides nothing."
    words = f"It passed {passed} of {len(decided)} trials of the rule; the model beside it serves all the same"
    lost = sum(trial.promoted and trial.later is not None and trial.later[0] <= 0 for trial in decided)
    after = f", and in the quarters after them it was no better in {lost} of these {passed}" if lost else ""
    return f"{words}, since it explains no chance{after}."


def trial_lines(trial: ShownTrial) -> Iterator[str]:
    yield f"- {trial.n:,} settled cases by {trial.authors:,} authors: {trial.why}"
    if trial.log_loss is not None and trial.auc is not None:
        yield f"- AUC {trial.auc:.3f}, log-loss {trial.log_loss:.3f}"
    if trial.gain is not None and trial.gain_low is not None and trial.gain_high is not None:
        gain = f"{trial.gain:+.3f} [{trial.gain_low:+.3f}, {trial.gain_high:+.3f}]"
        yield f"- gain in log-loss over what served before it, 95 % by author: {gain}"
    if trial.later is not None:
        gain = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*trial.later)
        yield f"- the same over the blend in the quarters after the trial: {gain}"
    if trial.seed_spread is not None:
        yield f"- AUC over seeds: standard deviation {trial.seed_spread:.4f}"
    if trial.scope == "person":
        yield f"- largest lift of one's own: {bad_bound(trial.self_lift)}"


def ring_line(ring: ShownRings) -> str:
    over, itself = (f"[{low:+.3f}, {high:+.3f}]" for low, high in (ring.over_blend, ring.over_unheard))
    return (
        f"- {ring.n:,} cases: AUC {ring.graph:.3f}, the blend {ring.blend:.3f} (gain {over}), itself without "
        f"neighbours {ring.unheard:.3f} (gain {itself})"
    )
