"""Bounds on how work grows with its input, which no busy machine and no slow one can break."""

import gc
from collections.abc import Callable
from time import thread_time
from typing import TypeVar

Input = TypeVar("Input")
Answer = TypeVar("Answer")
ROUNDS = 5
PARTS = 4
WHOLE_LINE = 9_900
MOST = 9.0  # times the work for four times the input: linear is 4, with a logarithm 5, quadratic 16


def in_linear_time(
    work: Callable[[Input], Answer], make: Callable[[int], Input], size: int, seconds: float = 0.25
) -> Answer:
    """What `work(make(size))` answers; AssertionError where it is slow and its work grows faster than its input.

    The shortest of five runs are compared, the whole and a quarter in turn, so that what else the machine does falls
    on both. `seconds` of CPU only save the comparison: they are several times what an ordinary machine takes, and who
    takes longer but in line with the size passes. `make` is called anew for each run: no answer is kept from the last.
    What is cut at some length shows its growth only below that: WHOLE_LINE characters of one line are read.
    """
    whole = part = float("inf")
    for _ in range(ROUNDS):
        took, answer = timed(work, make(size))
        whole = min(whole, took)
        if whole < seconds:
            return answer
        part = min(part, timed(work, make(size // PARTS))[0])
        if whole < MOST * part:
            return answer
    raise AssertionError(f"{whole:.3f} s for an input of {size}, {part:.3f} s for a quarter of it")


def timed(work: Callable[[Input], Answer], given: Input) -> tuple[float, Answer]:
    """CPU seconds of this thread, without collections (those walk what thousands of tests left), and the answer."""
    gc.disable()
    try:
        begun = thread_time()
        answer = work(given)
        return thread_time() - begun, answer
    finally:
        gc.enable()
