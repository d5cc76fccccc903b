"""What the red team found last, in sentences for the dashboard. Pure."""

from datetime import UTC, datetime

from scoring.redteam.last_run import LastRun

NOT_YET = (
    "Not run yet. The operator starts the simulations with manage.py redteam. They attack a copy of the vouch graph "
    "and change nothing."
)


def attack_sentences(last: LastRun | None) -> tuple[str, ...]:
    """The last run in up to three sentences with its date; where there is none, how to start one."""
    if last is None:
        return (NOT_YET,)
    played = datetime.fromtimestamp(last.at, UTC)
    date = f"{played.day} {played:%b %Y}"
    if not last.tried:
        return (f"On {date} nobody but seeds had a structural trust of 0.50: no regular's account was worth stealing.",)
    graph = f"{_counted(last.people, 'person', 'people')}, {_counted(last.vouches, 'vouch', 'vouches')}"
    return (_worst(last, date), _lane(last), f"Simulated on {graph}.")


def _worst(last: LastRun, date: str) -> str:
    fakes = _counted(last.above, "fake", "fakes")
    return (
        f"{date}: the worst of {last.tried:,} compromised regulars would have brought {fakes} to a structural trust "
        f"of 0.50, {last.on_two:,} of them over two paths."
    )


def _lane(last: LastRun) -> str:
    if not last.lane_open:
        return "The fast lane was shut, so 0 fakes would have come into it."
    told = (
        f"It would have brought {_counted(last.in_lane_with_record, 'fake', 'fakes')} into the fast lane with "
        f"{last.record} clean merges each, {last.in_lane:,} without a record"
    )
    if not last.bought:
        return f"{told}."
    vouches = _counted(last.bought, "bought vouch", "bought vouches")
    return f"{told}; up to {vouches} would have brought {last.in_lane_by_bought:,} with that record."


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
