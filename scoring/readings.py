"""What models said of one content, before it is joined with the findings on one pull request, and where that is kept.

A reading belongs to the scrubbed content alone. Two people who send the same diff share it, and each keeps the findings
that are about them; so places stay as the model was told them (F1:L12) and are looked up in each change anew.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from scoring.assessment import Assessment
from scoring.claude_answers import Why
from scoring.claude_models import Usage


@dataclass(frozen=True, slots=True)
class Reading:
    """What one model said: an assessment for each pass that was answered.

    `coverage` in [0, 1] is the share of the readable changed lines that it was given, `left_out` the indexes of files
    that it was not given whole, `words_whole` whether all that was said beside the diff fitted. `reason` is the code of
    the pass that failed, None where none did. `temperature_sent` None: the request named none.
    """

    model: str
    assessments: tuple[Assessment, ...] = ()
    coverage: float = 1.0
    left_out: tuple[int, ...] = ()
    words_whole: bool = True
    reason: Why | None = None
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    temperature_sent: float | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """A reading about to be paid for. `dollars` is the most that it may cost; `pull_uri` None: a diff by hand."""

    cache_key: str
    content_hash: str
    prompt_version: str
    model: str
    dollars: float
    pull_uri: str | None = None


Reserved = Literal["reserved", "over_budget", "over_repository_budget", "over_own_budget", "under_way"]


class Ledger(Protocol):
    """Where readings and their costs are kept."""

    def find(self, cache_key: str) -> Reading | None:
        """The whole reading of this prompt version, model and content; None where there is none yet."""

    def reserve(self, ticket: Ticket) -> Reserved:
        """Set the dollars aside before the call, or say why not: a budget of the day, or the same reading under way."""

    def settle(self, ticket: Ticket, reading: Reading) -> None:
        """Replace what was set aside by what it cost and what was said."""


class MemoryLedger:
    """A ledger for one process without a store: a budget in dollars for all of it, and nothing kept after it."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._spent = 0.0
        self._readings: dict[str, Reading] = {}

    def find(self, cache_key: str) -> Reading | None:
        """A whole reading of this process."""
        return self._readings.get(cache_key)

    def reserve(self, ticket: Ticket) -> Reserved:
        """Only the budget can be in the way: one thread reads."""
        if self._spent + ticket.dollars > self._budget:
            return "over_budget"
        self._spent += ticket.dollars
        return "reserved"

    def settle(self, ticket: Ticket, reading: Reading) -> None:
        """Give back what was not spent."""
        self._spent += reading.dollars - ticket.dollars
        if reading.reason is None:
            self._readings[ticket.cache_key] = reading
