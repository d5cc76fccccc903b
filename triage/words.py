"""Words and figures for people: ages, freshness, intervals. Pure."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from scoring.figures import percent, percent_interval
from scoring.figures import visible as visible
from scoring.read import Person
from scoring.verdict import Estimate, Verdict

# What Python puts before the words of the system; what asyncio says in their place, once for each address of a host.
_ERRNO = re.compile(r"\[Errno -?\d{1,4}\] ")
_CALL_FAILED = re.compile(r"\[Errno (\d{1,4})\] Connect call failed \([^()]{0,200}\)")
_SEVERAL = "Multiple exceptions: "
_REPEATED = re.compile(r"(connection refused|network is unreachable|no route to host)(?:, \1)+")


def age_words(then: datetime | None, now: datetime) -> str:
    """How long ago in one figure ("3 days"), "" for None; a time ahead of the clock reads "just now"."""
    return duration_words((now - then).total_seconds()) if then is not None else ""


def duration_words(seconds: float) -> str:
    """A length of time in one figure ("3 days"); under a minute it reads "just now"."""
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        count = int(seconds // length)
        if count >= 1:
            return f"{count:,} {name}{'' if count == 1 else 's'}"
    return "just now"


def brief_age(words: str) -> str:
    """Shorten an age for a row: "3 days" reads "3 d"."""
    number, _, unit = words.partition(" ")
    return f"{number} {'min' if unit[0] == 'm' else unit[0]}" if words[:1].isdigit() else words


def interval_sentence(estimate: Estimate) -> str:
    """P(clean) in words with its interval and what it rests on."""
    if estimate.probability is None:
        return "No settled pull request yet, so there is no number. Unknown is not bad: a person looks, as usual."
    cases = f"{estimate.cases:,} settled pull request{'' if estimate.cases == 1 else 's'}"
    return (
        f"About {percent(estimate.probability)} of changes like theirs stay clean "
        f"(95 % interval {percent_interval(estimate.low, estimate.high)}, from {cases})."
    )


def borrowed_words(projects: int | None) -> str:
    """From where an order is borrowed, "" where from nowhere."""
    if projects is None:
        return ""
    return f"borrowed from {projects:,} other project{'' if projects == 1 else 's'}, not yet checked on yours"


def is_denounced(verdict: Verdict) -> bool:
    """Whether a seed denounces the contributor: then a missing path is known to be missing, and final."""
    return any(reason.code == "denounced_by_seed" for reason in verdict.reasons)


def no_path_words(verdict: Verdict) -> str:
    """Why no path is shown."""
    if is_denounced(verdict):
        return "Someone you trust warns about this contributor, so no vouch for them counts."
    return "No trust path from the seeds. That is unknown, not bad."


def missing_evidence(verdict: Verdict, path: Sequence[Person], content_risk: float | None) -> tuple[str, ...]:
    """What is not known, each as a clause."""
    estimate = verdict.estimate
    known = (
        (bool(path) or is_denounced(verdict), "no trust path from the seeds"),
        (estimate.cases > 0, "no settled pull request"),
        (content_risk is not None, "content not reviewed yet"),
    )
    return tuple(words for is_known, words in known if not is_known)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current what is shown is: words, a tone that repeats them as a colour, and sentences that say more."""

    tone: Literal["live", "late", "stopped", "recorded", "none"]
    words: str
    details: tuple[str, ...] = ()


def unread_words(repositories: int) -> str:
    """What is missing where `repositories` ask for Claude and it cannot be asked; "" where none does."""
    if not repositories:
        return ""
    whose = "the one repository that asks" if repositories == 1 else f"the {repositories:,} repositories that ask"
    return f"Claude reads nothing because no API key is set. In {whose} for it, only scanners judge content."


def freshness(newest: datetime | None, now: datetime, recorded: bool) -> Freshness:
    """How far the newest event lies back; amber over 60 s, red over 10 min, and both say so in words."""
    if newest is None:
        return Freshness("none", "No data yet")
    if recorded:
        return Freshness("recorded", f"Recording, up to {newest.day} {newest:%b %Y %H:%M}")
    seconds = max(0, int((now - newest).total_seconds()))
    if seconds <= 60:
        return Freshness("live", f"Live, {seconds} s behind")
    if seconds <= 600:
        return Freshness("late", f"Late, {seconds // 60} min behind")
    return Freshness("stopped", f"Out of date, last event {age_words(newest, now)} ago")


def as_aware(moment: datetime | None) -> datetime | None:
    """A naive UTC time of the store as an aware one, which is what templates format."""
    return moment.replace(tzinfo=UTC) if moment is not None else None


def said(problem: str) -> str:
    """The words of a problem, without the numbers and addresses by which the system names its cause."""
    plain = _CALL_FAILED.sub(lambda found: os.strerror(int(found[1])).lower(), problem.replace(_SEVERAL, ""))
    return _REPEATED.sub(r"\1", _ERRNO.sub("", plain))
