"""Read the forms of a person's notifications: they come from a browser, so nothing in them is believed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from zoneinfo import available_timezones

from ingest.push.message import Browser, read_browser
from triage.services.notifying.push import EVENTS, Event

ANYWHERE = "UTC"
HOURS = range(24)
AREAS = {"Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"}


class ChoiceProblem(ValueError):
    """A form that no page of ours sends; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person wants to be told of, and their quiet hours: from the first one until the second."""

    events: tuple[Event, ...]
    quiet: tuple[int, int]
    time_zone: str


@cache  # it looks through the machine's folder of zones: 20 ms
def time_zones() -> tuple[str, ...]:
    """Return the names of places with a time of their own, such as Europe/Berlin, after UTC."""
    return (ANYWHERE, *sorted(name for name in available_timezones() if name.partition("/")[0] in AREAS))


def read_chosen(values: Mapping[str, str], ticked: list[str]) -> Chosen:
    """Return the choice in a form; `ticked` are its events. Raises ChoiceProblem."""
    zone = values.get("time_zone", "")
    if zone not in time_zones():
        raise ChoiceProblem("Choose a time zone from the list.")
    if not set(ticked) <= set(EVENTS):
        raise ChoiceProblem("Choose what you are told of from the list.")
    events = tuple(event for event in EVENTS if event in ticked)
    return Chosen(events, (_hour(values, "quiet_from"), _hour(values, "quiet_until")), zone)


def read_subscription(values: Mapping[str, str]) -> Browser:
    """Return the browser that asks to be told. Raises MalformedSubscription."""
    return read_browser(*(values.get(name, "") for name in ("endpoint", "p256dh", "auth")))


def read_zone(values: Mapping[str, str]) -> str:
    """Return the time zone that a browser named, UTC for one that is not known here."""
    zone = values.get("time_zone", "")
    return zone if zone in time_zones() else ANYWHERE


def _hour(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "")
    if text not in map(str, HOURS):
        raise ChoiceProblem("Choose the quiet hours from the list.")
    return int(text)
