"""What a model is made of: cases with their features, which columns speak of whom, and a name for exactly this data."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import numpy as np

from ingest.transaction import Rows
from scoring.catalogue import FEATURES
from scoring.features import add_features
from scoring.learning.cases import Cases, Directions
from scoring.learning.records import RECORD
from scoring.learning.relation import build_cases, read_cases, read_lane
from scoring.learning.slices import build_slices
from scoring.learning.waved import Waved
from scoring.policy import Policy

COLUMNS = (*FEATURES, *RECORD)
NOTHING = Waved()
REPOSITORIES = """
select distinct c.repository_id, coalesce(r.name, i.repository, 'repository ' || c.repository_id) as name
from cases c left join repositories r on r.repository_id = c.repository_id
left join (select distinct repository_id, repository from imported_pulls) i on i.repository_id = c.repository_id
"""
RISKS = "select pull_uri, arg_max(content_risk, begun_clock) as risk from content_reviews group by pull_uri"


@dataclass(frozen=True, slots=True)
class Material:
    """`person` are the columns of the person alone, `change` also the change's own; both name their directions.

    Of the record `change` has only the counts: the rest lowered the AUC of trees for merges by .004.

    `alone` are columns that a person moves alone (DESIGN.md §1.9). `repositories` names them by number. `lane` is what
    the fast lane let through. `risk` is the content risk by key of case, where the content was read.
    """

    cases: Cases
    person: Directions
    change: Directions
    alone: tuple[str, ...]
    repositories: Mapping[int, str]
    lane: Waved = NOTHING
    risk: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cases)


def material_of(cases: Cases, repositories: Mapping[int, str], lane: Waved = NOTHING) -> Material:
    """The material of cases that carry the catalogued features."""
    return Material(
        cases,
        {feature.name: feature.direction for feature in COLUMNS if feature.of == "person"},
        {feature.name: feature.direction for feature in (*FEATURES, *RECORD[:2])},
        tuple(feature.name for feature in COLUMNS if feature.of == "person" and feature.moved_by == "self"),
        repositories,
        lane,
    )


def read_material(rows: Rows, now: datetime, policy: Policy) -> Material:
    """Everything that a store or snapshot knows as of now, own and imported."""
    build_cases(rows, now, policy.window_days)
    build_slices(rows, now, policy)
    cases = add_features(rows, read_cases(rows))
    names = {row["repository_id"]: row["name"] for row in rows.rows(REPOSITORIES)}
    risk = {row["pull_uri"]: row["risk"] for row in rows.rows(RISKS)}
    return replace(material_of(cases, names, read_lane(rows, now)), risk=risk)


def data_version(cases: Cases) -> str:
    """16 hexadecimal digits: the same for the same cases with the same features, whatever the machine."""
    seen = hashlib.sha256()
    for one in fields(cases):
        if one.name in ("keys", "features"):
            continue
        seen.update(np.ascontiguousarray(getattr(cases, one.name)).tobytes())
    for key in cases.keys:
        seen.update(str(key).encode() + b"\0")
    for name in sorted(cases.features):
        # Twelve digits: sums in another order differ in the last ones.
        column = np.char.mod("%.12g", cases.features[name])
        seen.update(name.encode() + b"\0" + "\0".join(column.tolist()).encode())
    return seen.hexdigest()[:16]
