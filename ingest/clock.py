"""What time it is: the wall clock live, the newest frame's time in demo and replay. Always naive UTC."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1)
SLACK = timedelta(minutes=1)  # what was written later than this from now was dated by a clock that ran ahead


def wall_now() -> datetime:
    """The wall clock, naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


def from_microseconds(time_us: int) -> datetime:
    """Naive UTC datetime of unix microseconds; raises OverflowError outside the years 1 to 9999."""
    return EPOCH + timedelta(microseconds=time_us)


def to_microseconds(moment: datetime) -> int:
    """Unix microseconds of a naive UTC datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def parse_time(text: str) -> datetime | None:
    """An ISO time that somebody wrote as naive UTC; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None


class Clock(Protocol):
    """The present, as decisions see it."""

    def now(self) -> datetime:
        """Naive UTC."""
        ...


class WallClock:
    """The present of a live installation."""

    def now(self) -> datetime:
        """The wall clock, naive UTC."""
        return wall_now()
