"""`manage.py shadow_report`: what would have been fast lane, in a table, from the newest snapshot."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.snapshots import Publisher
from scoring.pipeline.lane_history import record_shadow
from tests.ingest.stream.frames import REPO
from tests.pipeline import opened
from tests.scoring.small import settled, take


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("shadow_report", *arguments, stdout=out)
    return out.getvalue()


def test_the_report_of_a_published_store_is_printed_day_by_day(tmp_path: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"
    with pytest.raises(CommandError, match="Nothing is published yet"):
        printed()
    with opened(tmp_path) as result:
        Publisher(result.store, settings.SNAPSHOT_DIR, lambda *told: None).publish_now()
        assert "No repository is watched yet" in printed()
        take(result, settled("open"))
        with result.store.write() as txn:
            txn.execute("update current_decisions set lane = 'fast_lane'")
        record_shadow(result.store)
        Publisher(result.store, settings.SNAPSHOT_DIR, lambda *told: None).publish_now()
    lines = [line.split() for line in printed("--repo", REPO).splitlines()]
    assert lines[0] == ["lantern", f"({REPO}),", "watching:", "the", "lane", "is", "shut"]
    assert lines[2] == ["2026-09-21", "1", "0", "0", "0", "1"]
    assert lines[3] == ["all", "1", "0", "0", "0", "1"]
    assert printed() == printed("--repo", REPO)
    with pytest.raises(CommandError, match="No watched repository has the key"):
        printed("--repo", "did:plc:nobody")
    with pytest.raises(CommandError, match="1 or more"):
        printed("--days", "0")
