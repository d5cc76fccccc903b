"""Explains a past decision: reads the one in force at a moment and checks that its inputs still give it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ingest.store.transaction import Rows
from scoring.explain.sentences import sentence
from scoring.formatting import percent, percent_interval, risk_percent, visible_name
from scoring.gate.decide import GATE_VERSION, judge_inputs, read_inputs
from scoring.pipeline.stored import read_verdict
from scoring.types import Verdict

# `as_of` is the clock of what was seen, live the wall's and in a replay the recording's. The wall may be set back: the
# pass that had read more is the later one whatever they say.
IN_FORCE = """
select * from scores where pull_uri = $uri and as_of <= $moment
order by data_version desc nulls last, as_of desc, decided_clock desc limit 1
"""
NAMED = ("score_id", "pull_uri", "record_cid", "round", "patch_id", "as_of", "decided_clock", "data_version")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision of the past, and what today's rules make of its inputs; `again` is None where no inputs were kept."""

    row: Mapping[str, Any]
    told: Verdict
    again: Verdict | None
    same_rules: bool

    @property
    def is_same(self) -> bool:
        """Return whether the same lane, reasons and P(clean) come out, to the last digit."""
        return self.again is not None and (
            self.again.lane is self.told.lane
            and self.again.reasons == self.told.reasons
            and self.again.estimate == self.told.estimate
        )


def replay_decision(rows: Rows, uri: str, moment: datetime) -> Replayed | None:
    """The decision on this pull request that was in force at `moment`, judged again; None where there was none."""
    row = rows.row(IN_FORCE, {"uri": uri, "moment": moment})
    return None if row is None else judge_again(row)


def judge_again(row: Mapping[str, Any]) -> Replayed:
    """A row of `scores` about a pull request, judged again from the inputs that it keeps."""
    told = read_verdict(row)
    if row["inputs"] is None:
        return Replayed(row, told, None, same_rules=False)
    inputs = read_inputs(row["inputs"])
    return Replayed(row, told, judge_inputs(inputs), inputs.gate_version == GATE_VERSION)


def why_json(found: Replayed) -> dict[str, Any]:
    """Return what `why --json` prints: the row, its inputs, and what they give now."""
    row, again = found.row, found.again
    return {
        **{name: row[name] for name in NAMED},
        "verdict": found.told,
        "content_risk": row["content_risk"],
        "thresholds": msgspec.json.decode(row["thresholds"]),
        "model_version": row["model_version"],
        "trust_measure": row["trust_measure"],
        "inputs": None if row["inputs"] is None else msgspec.json.decode(row["inputs"]),
        "again": again,
        "same_rules": found.same_rules,
        "is_same": found.is_same,
    }


def why_lines(found: Replayed) -> list[str]:
    """Return what `why` prints: what was judged, what was decided and why, what was known, and what that gives now."""
    row = found.row
    return [
        f"{row['pull_uri']}",
        f"decided as of {row['as_of']:%Y-%m-%d %H:%M:%S} UTC, decision {row['score_id']}",
        f"judged: record {visible_name(row['record_cid'])}, round {row['round']}, "
        f"patch {row['patch_id'] or 'not known'}",
        f"lane: {found.told.lane}, stays clean: {_probability(found.told)}, "
        f"content risk {_figure(row['content_risk'])}",
        *(f"  - {sentence(reason)}" for reason in found.told.reasons),
        f"model {row['model_version']}, trust by {row['trust_measure']}, data version {row['data_version']}",
        *_known(row["inputs"]),
        _outcome(found),
    ]


def _probability(verdict: Verdict) -> str:
    estimate = verdict.estimate
    if estimate.probability is None:
        return "no score yet"
    interval = percent_interval(estimate.low, estimate.high)
    return f"{percent(estimate.probability)} ({interval}, {estimate.cases} cases)"


def _figure(value: float | None) -> str:
    return "not known" if value is None else risk_percent(value)


def _known(stored: str | None) -> list[str]:
    """The inputs, a line each part; texts in them come from the network and are shown as JSON in ASCII."""
    if stored is None:
        return []
    parts = msgspec.json.decode(stored).items()
    return ["known then:", *(f"  {name}: {json.dumps(value, separators=(',', ':'))}" for name, value in parts)]


def _outcome(found: Replayed) -> str:
    if found.again is None:
        return "This decision was made by a version that kept no inputs: it cannot be judged again."
    if found.is_same:
        return "Judged again from these inputs: the same lane, reasons and chance."
    because = "" if found.same_rules else " The rules have changed since."
    return f"Judged again from these inputs: {found.again.lane} ({_codes(found.again)}).{because}"


def _codes(verdict: Verdict) -> str:
    return ", ".join(reason.code for reason in verdict.reasons)
