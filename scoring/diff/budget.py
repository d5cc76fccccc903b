"""The time limit of one examination, checked within the loops of the scanners."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from scoring.types import Finding

_over: ContextVar[Callable[[], bool] | None] = ContextVar("over", default=None)


class BudgetSpent(Exception):
    """The time of an examination is over; the findings so far (`found`) count."""

    def __init__(self, found: Sequence[Finding] = ()) -> None:
        super().__init__()
        self.found = tuple(found)


@contextmanager
def budget(is_over: Callable[[], bool]) -> Generator[None]:
    """Make `spend` raise BudgetSpent within the block once `is_over` returns True."""
    token = _over.set(is_over)
    try:
        yield
    finally:
        _over.reset(token)


def spend() -> None:
    """Check the budget before a piece of work of a few milliseconds; outside an examination there is no limit."""
    is_over = _over.get()
    if is_over is not None and is_over():
        raise BudgetSpent
