"""Measures how long maintainers have a change open before their verdict, for those who switched it on themselves."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import Avg, Count

from triage.models import Person, ReadingTime

log = logging.getLogger(__name__)

MOST = timedelta(minutes=30)  # from the opening to the verdict; after more the person did something else meanwhile
FEWEST = 5  # changes of which a sum is told: a smaller one would tell of one person's one change


@dataclass(frozen=True, slots=True)
class TimeSaved:
    """The reading of `rows` changes: of `measured` of them the mean time to a verdict is known, in seconds."""

    rows: int
    measured: int
    mean_seconds: float


def switch(person: Person, on: bool) -> None:
    """Begin to measure a person's reading, or end it and delete whatever was measured."""
    with transaction.atomic():
        Person.objects.filter(pk=person.pk).update(times_reading=on)
        if not on:
            ReadingTime.objects.filter(person=person).delete()


def note_opened(person: Person, uri: str, now: datetime) -> None:
    """Note that a person opened a change, if they want it measured; an opening without a verdict is soon forgotten."""
    _note(
        person,
        now,
        lambda: ReadingTime.objects.get_or_create(person=person, pull_uri=uri, defaults={"opened_at": now}),
    )


def note_verdict(person: Person, uri: str, now: datetime) -> None:
    """Note the first verdict of a person on a change that they opened at most MOST ago."""

    def end() -> None:
        waiting = ReadingTime.objects.filter(person=person, pull_uri=uri, seconds=None, opened_at__lte=now)
        if reading := waiting.first():
            waiting.update(seconds=round((now - reading.opened_at).total_seconds()))

    _note(person, now, end)


def _note(person: Person, now: datetime, note: Callable[[], object]) -> None:
    """Forget the person's openings of more than MOST ago, and note one more thing if they still want it measured.

    What somebody does on a page never fails for its measurement.
    """
    if not person.times_reading:
        return
    try:
        with transaction.atomic():
            ReadingTime.objects.filter(person=person, seconds=None, opened_at__lt=now - MOST).delete()
            if Person.objects.filter(pk=person.pk, times_reading=True).exists():
                note()
    except DatabaseError as problem:
        log.warning("a reading time was not noted: %s", problem)


def time_saved(uris: Collection[str]) -> TimeSaved:
    """Sum up the reading of these changes by everybody who has it measured."""
    found = ReadingTime.objects.filter(pull_uri__in=list(uris), seconds__isnull=False)
    told = found.aggregate(measured=Count("pull_uri", distinct=True), mean=Avg("seconds"))
    return TimeSaved(len(uris), told["measured"], float(told["mean"] or 0.0))
