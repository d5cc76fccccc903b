"""What of the red team's attacks got through, and what it does not play at all, in sentences. Pure."""

from collections.abc import Iterator
from typing import Any

from scoring.redteam.lanes import RECORDS
from scoring.redteam.measures import HALF
from scoring.redteam.rivals import OURS

SLACK = 1e-6  # of a ratio of two sums
NOT_PLAYED = (
    "A seed that is bought or hacked. A seed's word counts fully, so it can open any door. "
    "Choose few, and look at the list in the repository's settings.",
    "Somebody who earns a real record over months and then sends one bad change: trust and record are true then. "
    "What helps then: the review of the change itself, the random audit and the budget.",
    "Somebody with push access who merges fakes on purpose: each of these counts as a verified merge.",
    "The content of a change: this is about vouches. The scanners have tests of their own.",
)


def got_through(report: dict[str, Any]) -> tuple[str, ...]:
    """What did not hold in a report by `scoring.redteam.report`, the nearest to the lane first; () for nothing."""
    return tuple(_got_through(report))


def _got_through(report: dict[str, Any]) -> Iterator[str]:
    merges, stolen = RECORDS[-1], report["stolen"]
    fast = max((one["fast"][-1] for one in report["fitted"]), default=0)
    if fast:
        yield (
            f"With up to {max(report['scale']['bought']):,} bought vouches and {merges} farmed clean merges for each "
            f"fake, {fast:,} of them reach the fast lane."
        )
    if stolen["lane_open"] and stolen["in_lane_with_record"]:
        yield (
            f"One stolen account brings {stolen['in_lane_with_record']:,} fakes with {merges} clean merges each into "
            "the fast lane."
        )
    if stolen["above"]:
        yield f"One stolen account brings {stolen['above']:,} fakes to s >= {HALF:g}, though not into the lane by that."
    moved = max((one["moved"] for one in report["bombing"]), default=0)
    if moved:
        yield f"Fakes who denounce together push {moved:,} honest people below s = {HALF:g}."
    if (lift := report["scores"][OURS]["self_lift"]) > 1 + SLACK:
        yield f"Somebody who rewires their own vouches raises their own score to {lift:.3f} times what it was."
