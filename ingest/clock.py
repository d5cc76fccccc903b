"""The time: the wall clock live, the newest frame's time in demo and replay. Always naive UTC."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from ingest.errors import FetchProblem

EPOCH = datetime(1970, 1, 1)
SLACK = timedelta(minutes=1)  # a row dated further ahead of now than this was written by a clock that ran ahead


def wall_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def from_microseconds(time_us: int) -> datetime:
    """Return the naive UTC datetime of unix microseconds. Raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=time_us)


def to_microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def parse_time(text: str) -> datetime | None:
    """Return an ISO time from a stranger as naive UTC, or None if it is not a time."""
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
    """Return the wait after this many look-ups in a row: 1 minute, twice as long after each, 6 hours at most."""
    return min(FIRST_WAIT * 2 ** min(attempts - 1, 20), LONGEST_WAIT)


def waiting_time(attempts: int, problem: FetchProblem) -> timedelta:
    """Return the wait before the next request after this many failures in a row: 1 minute doubled, 6 hours at most."""
    if not problem.retry:
        return LONGEST_WAIT
    return max(doubled(attempts), timedelta(seconds=problem.after or 0))


def read_moment(text: str) -> datetime:
    """Return a time of the web's clock as naive UTC. Raises ValueError if it is not a time."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
