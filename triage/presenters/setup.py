"""Build /setup: the repositories to choose from, the seeds that follow, and the first reading's progress. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scoring.config.repository import Mode
from scoring.queries.read import FirstReading

SEEDS_SHOWN = 12
# Each option says first what leaves this machine.
REVIEWS: tuple[tuple[Mode, str], ...] = (
    ("deterministic", "No, only the scanners here read them"),
    ("claude", "Yes, Claude reads them too, without names"),
    ("off", "No, and no review at all: no fast lane"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """One repository to tick. `seeds` are people who become trusted once it is watched."""

    record: str
    repo_key: str
    name: str
    is_fork: bool
    is_watched: bool
    is_disputed: bool
    is_ticked: bool
    review: str
    seeds: tuple[str, ...]
    more_seeds: int
    silent: str


def choices(answer: Mapping[str, Any], ticked: Mapping[str, str]) -> tuple[Choice, ...]:
    """Return the repositories of an answer, with the current ticks."""
    owner, handles = answer["did"], answer["handles"]
    return tuple(_choice(repository, owner, handles, ticked) for repository in answer["repositories"])


def _choice(repository: Mapping[str, Any], owner: str, handles: Mapping[str, str], ticked: Mapping[str, str]) -> Choice:
    record = repository["record"]
    return Choice(
        record=record,
        repo_key=repository["repo_key"],
        name=repository["name"],
        is_fork=repository["is_fork"],
        is_watched=repository["is_watched"],
        is_disputed=repository["is_disputed"],
        is_ticked=record in ticked,
        review=ticked.get(record, REVIEWS[0][0]),
        seeds=tuple(handles.get(did, did) for did in (owner, *repository["holders"]))[:SEEDS_SHOWN],
        more_seeds=max(len(repository["holders"]) + 1 - SEEDS_SHOWN, 0),
        silent=repository["silent"],
    )


def read_ticks(values: Mapping[str, Any], records: list[str]) -> dict[str, str]:
    """Return the review mode of each ticked record; an unknown mode becomes the first."""
    modes = {mode for mode, _ in REVIEWS}
    modes_by_record = {record: values.get(f"review:{record}", "") for record in records}
    return {record: mode if mode in modes else REVIEWS[0][0] for record, mode in modes_by_record.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the first reading in a sentence, and whether it is done."""

    words: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress: headline, bar in accounts (None: no bar), steps, and whether it is still moving."""

    headline: str
    ended: int
    accounts: int | None
    steps: tuple[Step, ...]
    is_moving: bool


def progress_of(reading: FirstReading, handed_over: int) -> Progress | None:
    """Return the progress of the reading; None where none was started.

    `handed_over` counts choices that the worker has not visibly applied yet.
    """
    if reading.state == "none" and not handed_over:
        return None
    is_done = reading.state == "done" and not handed_over and not reading.unasked
    begun = reading.state != "none"
    return Progress(
        headline=_headline(reading, handed_over),
        ended=reading.ended,
        accounts=reading.accounts if begun and reading.accounts else None,
        steps=_steps(reading, handed_over),
        is_moving=not is_done,
    )


def _headline(reading: FirstReading, handed_over: int) -> str:
    if reading.state == "done" and handed_over:
        return "Almost ready: the worker applies your choice."
    if reading.state == "done":
        return (
            "Almost ready: waiting for the knots to say who has push access."
            if reading.unasked
            else "The inbox is ready."
        )
    if reading.seconds_left is None:
        return "The time it takes is not known yet."
    return f"Inbox ready in about {minutes_words(reading.seconds_left)}."


def minutes_words(seconds: float) -> str:
    """Format a length of time without false precision."""
    minutes = math.ceil(seconds / 60)
    return f"{minutes:,} minutes" if minutes > 1 else "a minute"


def _steps(reading: FirstReading, handed_over: int) -> tuple[Step, ...]:
    stream_words = "Connected to the event stream." if reading.is_heard else "No event from the stream yet."
    choice_words = (
        "The worker has applied your choice." if not handed_over else "The worker applies your choice within seconds."
    )
    if not reading.watched:
        push_words = "Sunstead asks the knots for push access once a repository is watched."
    elif reading.unasked:
        push_words = f"Push access is not known yet for {_counted(reading.unasked, 'repository', 'repositories')}."
    else:
        push_words = "Every knot has answered on push access."
    steps = [
        Step(stream_words, reading.is_heard),
        Step(choice_words, not handed_over),
        Step(push_words, bool(reading.watched) and not reading.unasked),
        Step(_read_words(reading), reading.state == "done"),
    ]
    if reading.rest:
        ended, accounts = reading.rest
        sentence = f"Then everybody else on the network: {ended:,} of {accounts:,} accounts read so far."
        steps.append(Step(sentence, False))
    return tuple(steps)


def _read_words(reading: FirstReading) -> str:
    if reading.state == "none":
        return "Next: owners, contributors and the people they vouch for."
    prefix = "" if reading.state == "done" else "at least "
    missing = f"; {reading.missing:,} could not be read" if reading.missing else ""
    pulls = _counted(reading.pulls, "pull request", "pull requests")
    return (
        f"Owners, contributors and the people they vouch for: {reading.ended:,} of {prefix}"
        f"{_counted(reading.accounts, 'account', 'accounts')} read, {reading.records:,} records, {pulls}{missing}."
    )


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"
