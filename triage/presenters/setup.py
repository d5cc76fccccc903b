"""Builds /setup: the repositories to choose from, the seeds that follow, and the first reading's progress. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scoring.config.repository import Mode
from scoring.queries.read import FirstReading

SEEDS_SHOWN = 12
# What leaves this machine is the first thing that each one says.
REVIEWS: tuple[tuple[Mode, str], ...] = (
    ("deterministic", "No, only the scanners here read them"),
    ("claude", "Yes, Claude reads them too, without names"),
    ("off", "No, and no review at all: no fast lane"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """One repository to tick. `seeds` are people whose judgement is taken as given once it is watched."""

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


def choices(found: Mapping[str, Any], ticked: Mapping[str, str]) -> tuple[Choice, ...]:
    """The repositories of an answer, with what was ticked so far."""
    owner, handles = found["did"], found["handles"]
    return tuple(_choice(one, owner, handles, ticked) for one in found["repositories"])


def _choice(one: Mapping[str, Any], owner: str, handles: Mapping[str, str], ticked: Mapping[str, str]) -> Choice:
    record = one["record"]
    return Choice(
        record=record,
        repo_key=one["repo_key"],
        name=one["name"],
        is_fork=one["is_fork"],
        is_watched=one["is_watched"],
        is_disputed=one["is_disputed"],
        is_ticked=record in ticked,
        review=ticked.get(record, REVIEWS[0][0]),
        seeds=tuple(handles.get(did, did) for did in (owner, *one["holders"]))[:SEEDS_SHOWN],
        more_seeds=max(len(one["holders"]) + 1 - SEEDS_SHOWN, 0),
        silent=one["silent"],
    )


def read_ticks(told: Mapping[str, Any], records: list[str]) -> dict[str, str]:
    """The review mode of each record that was ticked; one that is none of the three is the first."""
    modes = {mode for mode, _ in REVIEWS}
    asked = {record: told.get(f"review:{record}", "") for record in records}
    return {record: mode if mode in modes else REVIEWS[0][0] for record, mode in asked.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the first reading in a sentence; whether it is done."""

    words: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress: the headline, the bar in accounts (None of none), the steps, and if it is still moving."""

    headline: str
    ended: int
    accounts: int | None
    steps: tuple[Step, ...]
    is_moving: bool


def progress_of(reading: FirstReading, handed_over: int) -> Progress | None:
    """Return how far the reading is.

    `handed_over` is what is not seen to be taken over. None where nothing was begun.
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
    """A length of time that nobody takes for more exact than it is."""
    minutes = math.ceil(seconds / 60)
    return f"{minutes:,} minutes" if minutes > 1 else "a minute"


def _steps(reading: FirstReading, handed_over: int) -> tuple[Step, ...]:
    heard = "Connected to the event stream." if reading.is_heard else "No event from the stream yet."
    taken = (
        "The worker has applied your choice." if not handed_over else "The worker applies your choice within seconds."
    )
    if not reading.watched:
        pushing = "Sunstead asks the knots for push access once a repository is watched."
    elif reading.unasked:
        pushing = f"Push access is not known yet for {_counted(reading.unasked, 'repository', 'repositories')}."
    else:
        pushing = "Every knot has answered on push access."
    steps = [
        Step(heard, reading.is_heard),
        Step(taken, not handed_over),
        Step(pushing, bool(reading.watched) and not reading.unasked),
        Step(_read_words(reading), reading.state == "done"),
    ]
    if reading.rest:
        ended, accounts = reading.rest
        told = f"Then everybody else on the network: {ended:,} of {accounts:,} accounts read so far."
        steps.append(Step(told, False))
    return tuple(steps)


def _read_words(reading: FirstReading) -> str:
    if reading.state == "none":
        return "Next: owners, contributors and the people they vouch for."
    of = "" if reading.state == "done" else "at least "
    missing = f"; {reading.missing:,} could not be read" if reading.missing else ""
    pulls = _counted(reading.pulls, "pull request", "pull requests")
    return (
        f"Owners, contributors and the people they vouch for: {reading.ended:,} of {of}"
        f"{_counted(reading.accounts, 'account', 'accounts')} read, {reading.records:,} records, {pulls}{missing}."
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
