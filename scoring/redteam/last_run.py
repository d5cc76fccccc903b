"""What the red team found last, in one small file beside the store: the dashboard reads it, nobody's name is in it."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ingest.durable import sync
from scoring.redteam.rivals import OURS

FILE_BYTES = 4096
LATEST = 253_402_300_799  # the last second of the year 9999
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run on the present graph, at `at` (unix seconds).

    `above` of the fakes of the worst of `tried` stolen accounts reach s >= .5, `on_two` of them by two ways; `in_lane`
    get the fast lane without a record, `in_lane_with_record` with `record` clean merges each. With that record
    `in_lane_by_bought` get it behind up to `bought` bought vouches, in the worst attack; 0 where an older version ran.
    """

    at: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    scale: Annotated[str, msgspec.Meta(max_length=20)]
    people: Count
    vouches: Count
    tried: Count
    above: Count
    on_two: Count
    in_lane: Count
    record: Count
    in_lane_with_record: Count
    lane_open: bool
    bought: Count = 0
    in_lane_by_bought: Count = 0


_decoder = msgspec.json.Decoder(LastRun)


def last_run_of(report: dict[str, Any], at: float) -> LastRun:
    """What of a report by `scoring.redteam.report` is kept."""
    stolen = {name: report["stolen"][name] for name in LastRun.__struct_fields__ if name in report["stolen"]}
    graph, pools = report["graph"], [report["scores"][OURS][pool]["lanes"] for pool in ("random", "most_trusted")]
    fast = [*(lanes[-1]["fast"] for lanes in pools), *(one["fast"][-1] for one in report["fitted"])]
    return LastRun(
        at=at,
        scale=report["scale"]["name"],
        people=graph["people"],
        vouches=graph["vouches"],
        bought=max(report["scale"]["bought"]),
        in_lane_by_bought=max(fast),
        **stolen,
    )


def keep(path: Path, run: LastRun) -> None:
    """Put the run in the place of the one before, whole or not at all. Raises OSError."""
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(run))
        sync(aside)
        aside.rename(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def read_last_run(path: Path) -> LastRun | None:
    """The run that was kept; None where there is none, or none that can be read."""
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(FILE_BYTES))
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
