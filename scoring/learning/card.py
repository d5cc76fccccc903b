"""The card of a model: what it is for, what it was made of, how good it is and where it is not. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

SCOPES = {"person": "the next change of a contributor", "change": "one pull request"}


def card_of(record: Mapping[str, Any]) -> str:
    """Markdown of the record that scoring.learning.model_files makes."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {record['label']}"
    yield ""
    made = f"Made {record['made_at']} (UTC) of {record['cases']:,} pull requests"
    yield f"{made}, data {record['data']}, seed {record['seed']}."
    yield "It orders the inbox and informs maintainers. It does not judge a person and blocks nobody."
    for scope, words in SCOPES.items():
        yield from _scope(record["scopes"][scope], words)
    yield ""
    yield "What a contributor moves alone never raises their probability. Handles, locale and texts are not used."
    yield "Measured on pull requests that people also reviewed: the true rate without review may be higher."


def _scope(part: Mapping[str, Any], words: str) -> Iterator[str]:
    figures, decision = part["metrics"], part["decision"]
    yield ""
    yield f"## P(clean) of {words}"
    yield ""
    yield f"{decision['serves']} serves, with {part['calibration']['name']} calibration."
    yield from (f"- {trial['name']}: {trial['why']}" for trial in decision["trials"])
    yield from (f"- {sentence}" for sentence in part["said"])
    yield ""
    if not figures["n"]:
        yield "There was no settled pull request to judge it on."
        return
    yield f"On the {figures['n']:,} settled ones of the newest five years, scored as they would have been then:"
    yield ""
    yield from (f"- {name}: {_shown(figures[key])}" for key, name in NAMED.items())
    low, high = figures["ece_band"]
    yield f"- ECE of perfect calibration at this number: {_shown(low)} to {_shown(high)}"


NAMED = {"auc": "AUC", "brier": "Brier score", "log_loss": "log-loss", "ece": "ECE"}


def _shown(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
