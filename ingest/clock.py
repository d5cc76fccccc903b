"""The time: the wall clock live, the newest frame's time in demo and replay. Always naive UTC."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from ingest.errors import FetchProblem

EPOCH = datetime(1970, 1, 1)
SLACK = timedelta(minutes=1)  # what was written later than this from now was dated by a clock that ran ahead


def wall_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def from_microseconds(time_us: int) -> datetime:
    """Naive UTC datetime of unix microseconds; raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=time_us)


def to_microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def parse_time(text: str) -> datetime | None:
    """An ISO time that somebody wrote as naive UTC; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None


class Clock(Protocol):
    def now(self) -> datetime: ...


class WallClock:
    def now(self) -> datetime:
        return wall_now()


FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)

DAY = timedelta(days=1)


def doubled(attempts: int) -> timedelta:
    """1 minute after the first of so many look-ups in a row, twice as long after each, 6 hours at most."""
    return min(FIRST_WAIT * 2 ** min(attempts - 1, 20), LONGEST_WAIT)


def waiting_time(attempts: int, problem: FetchProblem) -> timedelta:
    """Return how long to leave a subject alone after so many failures in a row: 1 minute doubled, 6 hours at most."""
    if not problem.retry:
        return LONGEST_WAIT
    return max(doubled(attempts), timedelta(seconds=problem.after or 0))


def read_moment(told: str) -> datetime:
    """A time of the web's clock as naive UTC; ValueError for what is none."""
    return datetime.fromisoformat(told).astimezone(UTC).replace(tzinfo=None)
