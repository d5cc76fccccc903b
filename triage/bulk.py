"""Approving several pull requests of the fast lane together: what that would let in, before anybody says yes. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scoring.figures import one_decimal_up, percent, percent_interval
from scoring.read import QueueRow
from scoring.verdict import Lane
from triage.actions import OWN_WORK, ActionProblem, Conflict, Wanted

TYPED_ABOVE = 20  # more at once are approved only by somebody who types how many
AT_MOST = 200
LEFT_THE_LANE = "Nothing changed: some of them are no longer in the fast lane."


@dataclass(frozen=True, slots=True)
class BulkSummary:
    """What stands to be approved.

    `expected_bad` is how many of them may need a fix: the sum over the rows of 1 minus P(clean). `worst_bad` is the
    same at the lower ends of the 95 % intervals, where the rows without a P(clean) count as bad. Both round up.
    """

    count: int
    lines: int
    lowest: str  # the lowest P(clean) in whole percents, rounded down
    interval: str  # of that one, 95 %; "" where there is none
    expected_bad: str
    worst_bad: str
    must_type: bool


def summary(found: Sequence[QueueRow]) -> BulkSummary:
    """The figures of the confirmation."""
    known = [row.verdict.estimate for row in found if row.verdict.estimate.probability is not None]
    lowest = min(known, key=lambda estimate: estimate.probability or 0.0, default=None)
    return BulkSummary(
        count=len(found),
        lines=sum((row.added or 0) + (row.removed or 0) for row in found),
        lowest="none" if lowest is None else percent(lowest.probability or 0.0),
        interval="" if lowest is None else percent_interval(lowest.low, lowest.high),
        expected_bad=one_decimal_up(sum(1 - (row.verdict.estimate.probability or 0.0) for row in found)),
        worst_bad=one_decimal_up(sum(1 - row.verdict.estimate.low for row in found)),
        must_type=len(found) > TYPED_ABOVE,
    )


def check_lane(
    wanted: Sequence[Wanted], found: Mapping[str, QueueRow], changed: Collection[str], approver: str
) -> None:
    """ActionProblem for none or too many, Conflict naming those that are not in the fast lane as it stands now.

    The same for those that the approver, a DID, sent themselves.

    What changed after somebody approved it, what its author could push themselves, what the audit asks about and what
    is in shadow mode are never approved in bulk.
    """
    if not wanted:
        raise ActionProblem("Select at least one pull request first.")
    if len(wanted) > AT_MOST or len({one.uri for one in wanted}) != len(wanted):
        raise ActionProblem(f"At most {AT_MOST} different pull requests can be approved together.")
    own = [one.uri for one in wanted if (row := found.get(one.uri)) and row.author.did == approver]
    if own:
        raise Conflict(OWN_WORK, own)
    outside = [one.uri for one in wanted if one.uri in changed or not _is_fast(found.get(one.uri))]
    if outside:
        raise Conflict(LEFT_THE_LANE, outside)


def check_typed(count: int, typed: str) -> None:
    """ActionProblem where the number was to be typed and was not."""
    if count > TYPED_ABOVE and typed.strip() != str(count):
        raise ActionProblem(f"Nothing changed. Type {count} to approve {count} pull requests.")


def _is_fast(row: QueueRow | None) -> bool:
    if row is None or row.shadow or row.is_sealed:
        return False
    return row.verdict.lane is Lane.FAST_LANE and not row.own
