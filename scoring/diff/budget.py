"""The time that one examination may take, looked at from within the loops of the scanners."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from scoring.types import Finding

_over: ContextVar[Callable[[], bool] | None] = ContextVar("over", default=None)


class BudgetSpent(Exception):
    """The time of an examination is over; what was `found` so far counts, and that it was cut off."""

    def __init__(self, found: Sequence[Finding] = ()) -> None:
        super().__init__()
        self.found = tuple(found)


@contextmanager
def budget(is_over: Callable[[], bool]) -> Generator[None]:
    """Have `spend` raise BudgetSpent within the block once `is_over` says so."""
    token = _over.set(is_over)
    try:
        yield
    finally:
        _over.reset(token)


def spend() -> None:
    """Say that a piece of work begins, of at most some milliseconds; outside an examination there is no budget."""
    is_over = _over.get()
    if is_over is not None and is_over():
        raise BudgetSpent
