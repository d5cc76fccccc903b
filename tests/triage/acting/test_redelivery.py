"""A store that is made anew, or put back from an older backup, is told again what people decided on the pages."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.worker.runtime import Runtime
from scoring.queries import read
from tests.ingest.stream.frames import MARA, REPO, REPOSITORY, SEED
from tests.pipeline import At, Result, opened
from tests.scoring.small import DAY, MERGED_AT, OFFERED, feed, settled
from tests.triage.worlds.acting_site import NOON, ActingSite
from tests.triage.worlds.lane_site import NEXT, lane_site
from triage.access.permissions import keep_watched, set_role
from triage.models import AuditAnswer, OutboxEntry, Person, outbox
from triage.services.actions import undo
from triage.services.lane_closures import Scope, close_lane, open_lane
from triage.services.notifying.deliveries import deliver
from triage.services.objections import object_to, wish
from triage.services.repository_settings import save
from trustsite.worker.handover import make_runtime

pytestmark = pytest.mark.django_db
BEN, CLARA = "did:plc:" + "3" * 24, "did:plc:" + "4" * 24
FIRST, LATER = MERGED_AT + 20 * DAY, MERGED_AT + 50 * DAY
WHEN = NOON + timedelta(minutes=1)
# What people decided, as the store holds it; numbers of people are given anew in another file.
HELD = {
    "maintainer_actions": "select * exclude (actor_id) from maintainer_actions order by action_key",
    "approvals": "select * from approvals order by action_key",
    "audits": "select * exclude (actor_id) from audits order by audit_key",
    "lane_closures": "select * exclude (actor_id, author_id) from lane_closures order by closure_key",
    "lane_openings": "select * exclude (actor_id) from lane_openings order by closure_key",
    "maintainers": "select did, repository_id from maintainers join contributors using (contributor_id) order by did",
    "objections": "select * from objections order by objection_key",
    "leaderboard_wishes": "select left_out, told_at from leaderboard_wishes",
    "repository_settings": "select * from repository_settings",
}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with lane_site(tmp_path / "site", settings, monkeypatch, audited=True) as made:
        yield made


def runtime(result: Result, moment: Any = FIRST) -> Runtime:
    return replace(make_runtime(result.store, Fetcher(), At(moment)))


def held(result: Result) -> dict[str, list[dict[str, Any]]]:
    return {table: result.rows(sql) for table, sql in HELD.items()}


def act(site: ActingSite, client: Client, kind: str, version: int, uri: str = NEXT, **told: str) -> None:
    assert client.post("/act", site.form(kind, uri, version, **told)).status_code == 302


def answer_audit(site: ActingSite, client: Client) -> None:
    """Until then nobody can approve what was drawn."""
    form = {**site.form(uri=NEXT), "answer": "yes", "because": "small and tested"}
    assert client.post("/audit", {name: value for name, value in form.items() if value is not None}).status_code == 302


def decide_everything(site: ActingSite, ben: Client) -> None:
    """One decision of each kind that a page offers."""
    answer_audit(site, ben)
    act(site, ben, "approve", 0)
    act(site, ben, "note", 1, note="read twice")
    act(site, ben, "outcome", 0, OFFERED, outcome="needed_fix", patch_id="")
    person = Person.objects.get(did=BEN)
    closure, _ = close_lane(person, Scope(REPO, MARA), "one went wrong", NOON)
    open_lane(person, closure, "it was somebody else", NOON)
    close_lane(person, Scope(REPO), "until the release", NOON)
    set_role(None, Person.objects.create(did=CLARA), REPO, "maintainer", NOON)
    object_to(MARA, NEXT, REPO, "I tested it.", "link", None, NOON)
    wish(MARA, True, "link", None, NOON)
    with site.result.reading() as rows:
        found = read.watched_repository(rows, REPO)
    assert found is not None
    assert save(person, found, replace(found.settings, budget=0.02), found.settings.version, NOON)


def test_a_store_made_anew_holds_all_that_was_decided_and_since_when(
    site: ActingSite, ben: Client, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_everything(site, ben)
    assert deliver(runtime(site.result), WHEN) == OutboxEntry.objects.count()
    before = held(site.result)
    assert all(before.values())
    assert {row["known_from"] for row in before["maintainer_actions"]} == {FIRST}
    with lane_site(tmp_path / "anew", settings, monkeypatch) as anew:
        assert anew.result.value("select count(*) from audit_draws where drawn") == 0
        assert deliver(runtime(anew.result, LATER), WHEN) == OutboxEntry.objects.count()
        assert held(anew.result) == before
        assert deliver(runtime(anew.result, LATER), WHEN) == 0


def test_a_store_from_an_older_backup_is_told_what_came_after_it(site: ActingSite, ben: Client, tmp_path: Path) -> None:
    act(site, ben, "note", 0, note="before the backup")
    deliver(runtime(site.result), WHEN)
    site.result.store.checkpoint()
    (tmp_path / "backup").mkdir()
    shutil.copy(site.result.store.path, tmp_path / "backup" / "trust.duckdb")
    act(site, ben, "note", 1, note="after the backup")
    deliver(runtime(site.result), WHEN)
    before = held(site.result)
    with opened(tmp_path / "backup") as old:
        assert old.value("select count(*) from maintainer_actions") == 1
        deliver(runtime(old, LATER), WHEN)
        assert held(old) == before
        act(site, ben, "note", 2, note="since")
        deliver(runtime(old, LATER), WHEN)
    deliver(runtime(site.result, LATER), WHEN)
    assert site.result.value("select count(*) from maintainer_actions") == 3, "the other file was put back again"


def test_a_log_of_changes_that_is_set_aside_takes_nothing_with_it_that_people_decided(
    site: ActingSite, ben: Client, tmp_path: Path
) -> None:
    deliver(runtime(site.result), WHEN)
    site.result.store.checkpoint()
    decide_everything(site, ben)
    deliver(runtime(site.result), WHEN)
    before, path = held(site.result), site.result.store.path
    assert path.with_name("trust.duckdb.wal").stat().st_size > 0
    (tmp_path / "aside").mkdir()
    shutil.copy(path, tmp_path / "aside" / "trust.duckdb")  # as the drive holds it, without the log
    with opened(tmp_path / "aside") as old:
        assert old.value("select count(*) from maintainer_actions") == 0
        deliver(runtime(old, LATER), WHEN)
        assert held(old) == before


def test_a_kill_in_the_middle_of_a_run_brings_all_again_and_changes_nothing(
    site: ActingSite, ben: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(site, ben, "note", 0, note="once")

    def killed(*told: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("triage.services.notifying.deliveries.note_run", killed)
        with pytest.raises(KeyboardInterrupt):
            deliver(runtime(site.result), WHEN)
    deliver(runtime(site.result), WHEN)
    before = held(site.result)
    with monkeypatch.context() as patch:
        act(site, ben, "note", 1, note="twice")
        patch.setattr("triage.services.notifying.deliveries.note_run", killed)
        with pytest.raises(KeyboardInterrupt):
            deliver(runtime(site.result), WHEN)
    assert deliver(runtime(site.result), WHEN) == 2
    assert deliver(runtime(site.result), WHEN) == 0
    assert len(held(site.result)["maintainer_actions"]) == len(before["maintainer_actions"]) + 1


def test_what_is_about_a_pull_request_that_is_not_here_yet_waits_for_it(
    site: ActingSite, ben: Client, tmp_path: Path
) -> None:
    act(site, ben, "note", 0, note="read twice")
    with opened(tmp_path / "empty") as empty:
        assert deliver(runtime(empty), WHEN) == 0
        assert "not here yet" in OutboxEntry.objects.get().problem
        assert outbox.next_due() is None, "the sweep brings it again, not a task every second"
    assert deliver(runtime(site.result), WHEN) == 1


def test_a_store_made_anew_watches_what_the_operator_had_watched_once_its_record_is_there(tmp_path: Path) -> None:
    watched = "select repo_key from repositories semi join watched_repositories using (repository_id)"
    with opened(tmp_path / "empty") as anew:
        keep_watched(f"at://{SEED}/{REPOSITORY}/lantern", NOON)
        keep_watched(f"at://{SEED}/{REPOSITORY}/lantern", NOON)
        assert deliver(runtime(anew), WHEN) == 0
        assert "is not known yet" in OutboxEntry.objects.get().problem
        feed(anew, settled())
        assert deliver(runtime(anew), WHEN) == 1
        assert [row["repo_key"] for row in anew.rows(watched)] == [REPO]
        OutboxEntry.objects.update(delivered_at=None)
        assert deliver(runtime(anew), WHEN) == 1
        assert anew.value("select count(*) from watched_repositories") == 1


def test_a_release_ends_an_approval_also_where_it_arrives_before_it(site: ActingSite, ben: Client) -> None:
    answer_audit(site, ben)
    act(site, ben, "approve", 0)
    site.after(1)
    act(site, ben, "release", 1)
    OutboxEntry.objects.filter(payload__kind="approve").update(problem="not here yet")
    assert deliver(runtime(site.result), WHEN) == 3
    assert [row["state"] for row in site.result.rows("from approvals")] == ["released"]


def test_what_was_undone_is_never_told_again(
    site: ActingSite, ben: Client, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(site, ben, "outcome", 0, OFFERED, outcome="reverted", patch_id="")
    undo(Person.objects.get(did=BEN), OutboxEntry.objects.get().key, site.now)
    deliver(runtime(site.result), WHEN)
    with lane_site(tmp_path / "anew", settings, monkeypatch) as anew:
        deliver(runtime(anew.result), WHEN)
        assert anew.result.value("select count(*) from maintainer_actions") == 0


def test_the_odds_of_a_draw_outlive_its_store(site: ActingSite, ben: Client) -> None:
    decide_everything(site, ben)
    deliver(runtime(site.result), WHEN)
    answered = OutboxEntry.objects.get(kind="audit.answered")
    assert AuditAnswer.objects.count() == 1
    assert answered.payload["draw"]["odds"] == 1.0
