"""What is told of each question to a model, to whoever in this process counts or traces them: figures, never a word.

Nothing of what was sent or said is among it, so a listener cannot pass on what a diff holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scoring.claude_models import Usage

FOUND = "found"  # the ledger held the reading, and nobody was asked


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One question. `outcome` is 'answered', the reason of a NoAnswer, 'failed' (an error of ours), or FOUND.

    `began` is in unix seconds; `seconds` count every attempt and the waits between them. `usage` is what was billed, as
    far as anybody says. `temperature` None: the request named none.
    """

    operation: Literal["chat", "count_tokens"]
    model: str
    began: float
    seconds: float
    attempts: int
    outcome: str
    usage: Usage
    temperature: float | None = None
    output_limit: int | None = None


Listener = Callable[[ModelCall], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Have every call of this process told to `listener`, on the thread that made it: it is quick and never fails."""
    _listeners.append(listener)


def leave(listener: Listener) -> None:
    """Tell it nothing more."""
    _listeners.remove(listener)


def tell(call: ModelCall) -> None:
    """Tell whoever listens."""
    for listener in tuple(_listeners):
        listener(call)
