"""Stores readings, the answers of models on one scrubbed content, and counts their cost against the day's budget.

A reading depends on the scrubbed content alone, so two people who send the same diff share it, while findings about
a person stay with that person's pull request. Places are stored in the model's form (F1:L12) and resolved for each
change anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Literal, Protocol

import msgspec
from pydantic import TypeAdapter, ValidationError

from ingest.json_decoding import decode_json
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from scoring.review.costs import Usage
from scoring.review.schema import Assessment, FailureReason
from scoring.review.store import RUNNING


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of one model, with an assessment for each answered pass.

    `coverage` in [0, 1] is the share of the readable changed lines that it was given, `left_out` the indexes of files
    that it was not given whole, `words_whole` whether all that was said beside the diff fitted. `reason` is the code of
    the pass that failed, None where none did. `temperature_sent` None: the request named none.
    """

    model: str
    assessments: tuple[Assessment, ...] = ()
    coverage: float = 1.0
    left_out: tuple[int, ...] = ()
    words_whole: bool = True
    reason: FailureReason | None = None
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    temperature_sent: float | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """A reading to be paid for. `dollars` is its highest possible cost; `pull_uri` None: a patch sent by hand."""

    cache_key: str
    content_hash: str
    prompt_version: str
    model: str
    dollars: float
    pull_uri: str | None = None


Reserved = Literal["reserved", "over_budget", "over_repository_budget", "over_own_budget", "under_way"]


class Ledger(Protocol):
    """Stores readings and their costs."""

    def find(self, cache_key: str) -> Reading | None:
        """Return the complete reading of this prompt version, model and content; None without one."""

    def reserve(self, ticket: Ticket) -> Reserved:
        """Reserve the dollars before the call, or return why not: a spent budget, or the same reading under way."""

    def settle(self, ticket: Ticket, reading: Reading) -> None:
        """Replace the reserved dollars by the real cost and keep the reading."""


class MemoryLedger:
    """A ledger in memory for one process; `budget` is in dollars for the whole run."""

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._spent = 0.0
        self._readings: dict[str, Reading] = {}

    def find(self, cache_key: str) -> Reading | None:
        return self._readings.get(cache_key)

    def reserve(self, ticket: Ticket) -> Reserved:
        """Reserve within the budget; one thread reads, so nothing else can refuse."""
        if self._spent + ticket.dollars > self._budget:
            return "over_budget"
        self._spent += ticket.dollars
        return "reserved"

    def settle(self, ticket: Ticket, reading: Reading) -> None:
        """Correct the spent dollars and keep a complete reading."""
        self._spent += reading.dollars - ticket.dollars
        if reading.reason is None:
            self._readings[ticket.cache_key] = reading


# The longest reading that settings allow takes 1 h 50 min: two calls, five attempts of 600 s, and 60 s between them.
ABANDONED_AFTER = timedelta(hours=3)
SPENT = "select coalesce(sum(dollars), 0) from reviews where started_clock >= ?"
SPENT_BY = f"{SPENT} and payer = ?"
SPENT_BY_REPOSITORY = """
select split_part(payer, ':', 2)::integer as repository_id, sum(dollars) as dollars
from reviews where started_clock >= ? and starts_with(payer, 'repository:') group by payer
"""
ABANDON = """
update reviews set state = 'no content verdict', reason = 'abandoned', ended_clock = ?
where state = 'running' and (started_clock < ? or started_clock < ?)
"""
COSTS = """
select count(*) as reviews, coalesce(sum(dollars), 0) as dollars, quantile_cont(dollars, 0.5) as median,
  quantile_cont(dollars, 0.95) as p95
from reviews where state <> 'running' and dollars > 0 and started_clock >= ?
"""
USAGE = ("input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens")
_ASSESSMENTS = TypeAdapter(tuple[Assessment, ...])


class Costs(msgspec.Struct, frozen=True):
    """The costs of readings since a moment; median and 95th percentile in dollars a reading, None without any.

    A call that never reached a model cost nothing and is not counted.
    """

    reviews: int
    dollars: float
    median: float | None
    p95: float | None


class _Verdict(msgspec.Struct):
    assessments: msgspec.Raw
    left_out: tuple[int, ...]
    words_whole: bool


class StoreLedger:
    """The ledger of a site. `budget` is in dollars for a day of UTC, `now` the wall clock without a time zone.

    Each repository may spend `repository_budget` of it on its pull requests, and `sender` of a patch by hand
    `own_budget`, so that nobody uses up the shared budget alone. A reading that runs since before `opened`, when this
    process opened the store, died with an earlier process.
    """

    def __init__(
        self,
        store: Store,
        budget: float,
        now: Callable[[], datetime],
        opened: datetime = datetime.min,
        *,
        repository_budget: float = inf,
        sender: str | None = None,
        own_budget: float = inf,
    ) -> None:
        self._store, self._budget, self._now, self._opened = store, budget, now, opened
        self._repository_budget, self._sender, self._own_budget = repository_budget, sender, own_budget

    def find(self, cache_key: str) -> Reading | None:
        """Return the newest complete reading; one that cannot be decoded counts as none."""
        with self._store.read() as rows:
            row = rows.row(
                "from reviews where cache_key = ? and state = 'content verdict' order by started_clock desc limit 1",
                [cache_key],
            )
        if row is None:
            return None
        try:
            verdict = decode_json(row["verdict"], _Verdict)
            assessments = _ASSESSMENTS.validate_json(bytes(verdict.assessments))
        except (msgspec.MsgspecError, ValidationError):
            return None
        usage = Usage(*(row[name] for name in USAGE))
        return Reading(
            model=row["model"],
            assessments=assessments,
            coverage=row["coverage"],
            left_out=verdict.left_out,
            words_whole=verdict.words_whole,
            usage=usage,
            dollars=row["dollars"],
            temperature_sent=row["temperature_sent"],
        )

    def reserve(self, ticket: Ticket) -> Reserved:
        """Reserve in one transaction, so that of two workers only one reads a content or gets the last dollars."""
        now = self._now()
        with self._store.write() as txn:
            txn.execute(ABANDON, [now, now - ABANDONED_AFTER, self._opened])
            earlier_reviews = txn.rows("select state from reviews where cache_key = ?", [ticket.cache_key])
            if any(row["state"] == RUNNING for row in earlier_reviews):
                return "under_way"
            payer = self._payer(txn, ticket)
            if spent_by(txn, payer, _midnight(now)) + ticket.dollars > self._share(ticket):
                return "over_own_budget" if ticket.pull_uri is None else "over_repository_budget"
            if spent_since(txn, _midnight(now)) + ticket.dollars > self._budget:
                return "over_budget"
            _insert_running_review(txn, ticket, payer, f"{ticket.cache_key}-{len(earlier_reviews)}", now)
        return "reserved"

    def _payer(self, rows: Rows, ticket: Ticket) -> str | None:
        """Return the payer of a reading: the sender, or the repository of the pull request."""
        if ticket.pull_uri is None:
            return self._sender
        repository_id = rows.value("select repository_id from pull_requests where pull_uri = ?", [ticket.pull_uri])
        return None if repository_id is None else f"repository:{repository_id}"

    def _share(self, ticket: Ticket) -> float:
        return self._own_budget if ticket.pull_uri is None else self._repository_budget

    def settle(self, ticket: Ticket, reading: Reading) -> None:
        """Write the answer and its cost to the reserved row."""
        values = {
            "state": "no content verdict" if reading.reason else "content verdict",
            "reason": reading.reason,
            "verdict": verdict_json(reading),
            "coverage": reading.coverage,
            "dollars": reading.dollars,
            "temperature_sent": reading.temperature_sent,
            "ended_clock": self._now(),
            **_usage_columns(reading.usage),
        }
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._store.write() as txn:
            txn.execute(
                f"update reviews set {columns} where cache_key = ? and state = 'running'",
                [*values.values(), ticket.cache_key],
            )

    def spent_today(self) -> float:
        """Return the dollars of this day, including those reserved for running readings."""
        with self._store.read() as rows:
            return spent_since(rows, _midnight(self._now()))

    def spent_by_repository(self) -> Mapping[int, float]:
        """Return the dollars of this day by repository, including those reserved for running readings."""
        with self._store.read() as rows:
            spending = rows.rows(SPENT_BY_REPOSITORY, [_midnight(self._now())])
        return {row["repository_id"]: row["dollars"] for row in spending}


def spent_by(rows: Rows, payer: str | None, moment: datetime) -> float:
    """Return the dollars of one payer's readings that began since `moment`; 0 without a payer."""
    return rows.value(SPENT_BY, [moment, payer]) if payer else 0.0


def spent_since(rows: Rows, moment: datetime) -> float:
    """Return the dollars of all readings that began since `moment`."""
    return rows.value(SPENT, [moment])


def costs_since(rows: Rows, moment: datetime) -> Costs:
    """Return the costs of the readings that began since `moment` and ended, with or without a verdict."""
    return Costs(**rows.rows(COSTS, [moment])[0])


def newest_costs(rows: Rows) -> Costs:
    """Return the costs of the thirty days up to the newest reading."""
    newest = rows.value("select max(started_clock) from reviews")
    return costs_since(rows, newest - timedelta(days=30) if newest else datetime.min)


def verdict_json(reading: Reading) -> str:
    """Return the assessments of a reading as JSON for the column `verdict`."""
    verdict = {
        "assessments": [assessment.model_dump(mode="json") for assessment in reading.assessments],
        "left_out": reading.left_out,
        "words_whole": reading.words_whole,
    }
    return msgspec.json.encode(verdict).decode()


def _insert_running_review(txn: Transaction, ticket: Ticket, payer: str | None, review_id: str, now: datetime) -> None:
    row = {
        "review_id": review_id,
        "cache_key": ticket.cache_key,
        "content_hash": ticket.content_hash,
        "prompt_version": ticket.prompt_version,
        "model": ticket.model,
        "pull_uri": ticket.pull_uri,
        "payer": payer,
        "state": RUNNING,
        "verdict": verdict_json(Reading(ticket.model)),
        "coverage": 0.0,
        "dollars": ticket.dollars,
        "started_clock": now,
        **_usage_columns(Usage()),
    }
    txn.append("reviews", [row])


def _usage_columns(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in USAGE}


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
