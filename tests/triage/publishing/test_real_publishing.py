"""Assessments as records in a real data server: what is written, what is taken back, and what stands in the way."""

import pytest

from ingest.oauth.records import assessment_key
from tests.scoring.small import OFFERED
from tests.triage.worlds.publishing_site import ASSESSMENT, SERVICE, PublishingSite

pytestmark = pytest.mark.django_db


def test_a_decided_pull_request_is_told_as_its_record_where_the_repository_publishes(
    publishing: PublishingSite,
) -> None:
    publishing.site.merge(OFFERED)
    assert (publishing.tell(), publishing.records()) == (0, {}), "it is off by default"
    publishing.choose("decided")
    assert publishing.tell() == 2
    (record,) = publishing.records().values()
    (lane,) = publishing.told()
    assert publishing.records() == publishing.table()
    assert list(publishing.records()) == [assessment_key(OFFERED)]
    assert record["subject"] == {"uri": OFFERED, "cid": lane.cid}
    assert (record["decision"], record["outcome"]["state"]) == (lane.lane, "merged")
    assert set(record) <= {
        *("$type", "subject", "patchId", "repo", "decision", "reasons", "policy", "evaluator", "outcome", "createdAt")
    }
    assert publishing.records(SERVICE)["self"]["collections"] == [ASSESSMENT, SERVICE]
    assert publishing.prove(assessment_key(OFFERED)).record == record
    assert publishing.tell() == 0
    publishing.choose("off")
    assert (publishing.tell(), publishing.records(), publishing.table()) == (2, {}, {})
