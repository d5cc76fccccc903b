"""Measure how long maintainers have a change open before their verdict, for those who opted in."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import Avg, Count

from triage.models import Person, ReadingTime

log = logging.getLogger(__name__)

MOST = timedelta(minutes=30)  # from opening to verdict; after longer the person did something else meanwhile
FEWEST = 5  # least number of changes for a sum: a smaller one would reveal one person's time on one change


@dataclass(frozen=True, slots=True)
class TimeSaved:
    """The reading of `rows` changes; `measured` of them have a mean time to a verdict, in seconds."""

    rows: int
    measured: int
    mean_seconds: float


def switch(person: Person, on: bool) -> None:
    """Begin to measure a person's reading, or stop and delete all measurements."""
    with transaction.atomic():
        Person.objects.filter(pk=person.pk).update(times_reading=on)
        if not on:
            ReadingTime.objects.filter(person=person).delete()


def note_opened(person: Person, uri: str, now: datetime) -> None:
    """Note that a person opened a change, if they opted in; an opening without a verdict is soon deleted."""
    _note(
        person,
        now,
        lambda: ReadingTime.objects.get_or_create(person=person, pull_uri=uri, defaults={"opened_at": now}),
    )


def note_verdict(person: Person, uri: str, now: datetime) -> None:
    """Note a person's first verdict on a change that they opened at most MOST ago."""

    def save_time() -> None:
        openings = ReadingTime.objects.filter(person=person, pull_uri=uri, seconds=None, opened_at__lte=now)
        if reading := openings.first():
            openings.update(seconds=round((now - reading.opened_at).total_seconds()))

    _note(person, now, save_time)


def _note(person: Person, now: datetime, note: Callable[[], object]) -> None:
    """Delete the person's openings older than MOST, and call `note` if they are still opted in.

    A failed measurement never makes a person's action fail.
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
    """Sum up the measured reading of these changes by everybody."""
    times = ReadingTime.objects.filter(pull_uri__in=list(uris), seconds__isnull=False)
    totals = times.aggregate(measured=Count("pull_uri", distinct=True), mean=Avg("seconds"))
    return TimeSaved(len(uris), totals["measured"], float(totals["mean"] or 0.0))
