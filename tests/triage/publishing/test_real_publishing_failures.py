"""Publishing while the server fails, forgets, refuses or is written by others: nothing is lost or told twice."""

import weakref
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from ingest.errors import FetchProblem, OAuthRefused
from ingest.http.fetcher import Fetcher
from ingest.oauth.app_password import PasswordServer
from ingest.oauth.dpop import DpopSender
from ingest.oauth.resource import StoredRecord
from ingest.records.assessment import assessment_key
from tests.triage.worlds.publishing_site import (
    ASSESSMENT,
    PublishingSite,
    as_text,
    lane,
)
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing import publisher
from triage.services.publishing.publisher import (
    UPDATE,
    points_spent,
)
from triage.services.publishing.records import (
    forget_published,
    note_lanes,
)
from triage.services.publishing.service_account import open_server

pytestmark = pytest.mark.django_db
HOUR_LONG = timedelta(hours=1)


class Lost:
    """Writes whose answers are lost, or which the server refuses, one problem after the other; then as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *problems: FetchProblem, arrives: bool = True) -> None:
        self.problems, self.arrives, self._put = list(problems), arrives, PasswordServer.put_record
        monkeypatch.setattr(PasswordServer, "put_record", lambda *told: self.put(*told))

    def put(self, server: PasswordServer, *told: Any) -> Any:
        if not self.problems:
            return self._put(server, *told)
        if self.arrives:
            self._put(server, *told)
        raise self.problems.pop(0)


class Listed(StoredRecord, frozen=True, weakref=True):
    """One that can be watched: whether anybody still holds it."""


def test_an_answer_that_was_lost_is_found_by_comparing_and_nothing_is_written_twice(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lost(monkeypatch, FetchProblem("pds.example.test failed (status 500)", status=500, retry=True))
    publishing.tell_these([lane(1), lane(2)])
    assert "cannot take records just now (pds.example.test failed (status 500))" in publishing.said()
    assert publishing.tell_these([lane(1), lane(2)]) == 0, "it waits"
    publishing.after(seconds=31)
    publishing.tell_these([lane(1), lane(2)])
    assert publishing.records() == publishing.table()
    assert len(publishing.records()) == 2
    assert publishing.said() == ""


def test_a_server_that_asks_to_wait_gets_the_newest_state_then(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lost(monkeypatch, FetchProblem("too much", status=429, retry=True, after=120.0), arrives=False)
    publishing.tell_these([lane(1)])
    assert publishing.said() == "pds.example.test asks to wait. The newest state of each record is sent then."
    publishing.after(seconds=119)
    assert publishing.tell_these([lane(1, "fast_lane")]) == 0
    publishing.after(seconds=2)
    publishing.tell_these([lane(1, "fast_lane")])
    assert [one["decision"] for one in publishing.records().values()] == ["fast_lane"]


def test_a_record_that_the_server_refuses_holds_up_no_other(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = OAuthRefused(
        "pds.example.test refused (InvalidRecord); nothing was done", status=400, error="InvalidRecord"
    )
    Lost(monkeypatch, refusal, arrives=False)
    publishing.tell_these([lane(1), lane(2)])
    (row,) = PublishedRecord.objects.exclude(problem="")
    assert ("InvalidRecord" in row.problem, row.tries, len(publishing.table())) == (True, 1, 2)
    publishing.after(seconds=31)
    publishing.tell_these([lane(1), lane(2)])
    assert publishing.records() == publishing.table()


def test_a_server_that_is_down_loses_nothing(publishing: PublishingSite) -> None:
    publishing.fetcher.close()
    publishing.fetcher = Fetcher("http://127.0.0.1:9")  # nothing listens there
    publishing.sender = DpopSender(publishing.fetcher)
    publishing.restart()
    for _ in range(3):
        publishing.tell_these([lane(1)])
        publishing.after(hours=1)
    account = ServiceAccount.objects.get()
    assert (account.failures, "Sending is tried again by itself." in account.problem) == (3, True)
    assert len(publishing.table()) == 1


def test_another_program_that_writes_as_the_account_is_overruled_and_told(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1), lane(2)])
    foreign = f"at://{publishing.account.did}/{ASSESSMENT}"
    publishing.account.put(f"{foreign}/{assessment_key(lane(1).uri)}", {"decision": "fast_lane"})
    publishing.after(minutes=1)
    publishing.tell_these([lane(1, "normal_queue"), lane(2)])
    assert publishing.records() == publishing.table()
    assert publishing.said().startswith("Another program writes with the service account")
    publishing.account.create(ASSESSMENT, {"decision": "needs_human"}, "made-up")
    publishing.restart()
    publishing.tell_these([lane(1, "normal_queue"), lane(2)])
    assert publishing.said() == "Unknown records stood in this site's collections and are deleted: 1."
    assert publishing.records() == publishing.table()


def test_after_a_restore_the_repository_follows_the_table(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1), lane(2)])
    kept = list(PublishedRecord.objects.all())
    publishing.after(minutes=1)
    publishing.tell_these([lane(1, "fast_lane"), lane(3)])
    PublishedRecord.objects.all().delete()
    PublishedRecord.objects.bulk_create(kept)  # as an older backup has them
    publishing.restart()
    publishing.tell_these([lane(1, "fast_lane"), lane(4)])
    assert publishing.records() == publishing.table()
    assert set(publishing.records()) == {assessment_key(lane(number).uri) for number in (1, 4)}


def test_rows_that_were_lost_find_their_records_and_nothing_is_written_again(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1), lane(2)])
    before, spent = publishing.records(), points_spent(publishing.site.now, HOUR_LONG)
    PublishedRecord.objects.all().delete()
    publishing.after(minutes=5)
    publishing.restart()
    publishing.tell_these([lane(1), lane(2, "fast_lane")])
    kept, changed = assessment_key(lane(1).uri), assessment_key(lane(2).uri)
    assert publishing.records() == publishing.table()
    assert publishing.records()[kept] == before[kept]
    assert publishing.records()[changed]["decision"] == "fast_lane"
    assert points_spent(publishing.site.now, HOUR_LONG) == spent + UPDATE, "the service's record stayed too"


def test_a_server_that_lists_anything_without_an_end_fills_no_memory_and_names_nobody_twice(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishing.tell_these([lane(1)])
    held = []

    def listed(server: PasswordServer, collection: str) -> Iterator[StoredRecord]:
        for number in range(2_000):
            stored = Listed(f"at://x/{collection}/{number % 700}", "cid", {"text": "x" * 100})
            held.append(weakref.ref(stored))
            yield stored
        yield StoredRecord(f"at://x/{collection}/{'k' * 513}", "cid", {})
        assert sum(one() is not None for one in held) <= 2

    monkeypatch.setattr(PasswordServer, "list_records", listed)
    server = open_server(ServiceAccount.objects.get(), publishing.sender)
    note = publisher.compare(server, publishing.site.now)
    assert note.startswith("Unknown records stood")
    strays = PublishedRecord.objects.filter(collection=ASSESSMENT, record__isnull=True)
    assert (strays.count(), strays.filter(waits=False).count()) == (700, 0)
    assert PublishedRecord.objects.get(rkey=assessment_key(lane(1).uri)).waits, "it is to be written again"


def test_who_is_erased_between_a_lost_answer_and_the_next_try_is_gone_too(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lost(monkeypatch, OAuthRefused("pds.example.test answered in a form that cannot be used"))
    publishing.tell_these([lane(1), lane(2)])
    (row,) = PublishedRecord.objects.exclude(problem="")
    gone = row.author
    assert (row.cid, gone.encode() in publishing.car()) == ("", True)
    forget_published(gone, publishing.site.now)
    publishing.after(seconds=1)
    publishing.tell_these([one for one in (lane(1), lane(2)) if one.author != gone])
    assert gone.encode() not in publishing.car()


def test_what_is_taken_back_waits_without_a_name(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1)])
    note_lanes([], "decided", publishing.site.now)
    assert lane(1).author not in as_text(list(PublishedRecord.objects.values()))


def test_a_grant_that_does_not_allow_a_former_collection_holds_up_nothing_else(
    publishing: PublishingSite, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishing.tell_these([lane(1)])
    settings.LEXICON_AUTHORITY = "com.example"
    delete = PasswordServer.delete_record

    def refuse(server: PasswordServer, collection: str, rkey: str, replaces: str) -> None:
        if collection == ASSESSMENT:
            raise OAuthRefused("you have not allowed this here", status=403, missing_scope=f"repo:{ASSESSMENT}")
        delete(server, collection, rkey, replaces)

    monkeypatch.setattr(PasswordServer, "delete_record", refuse)
    publishing.after(minutes=1)
    publishing.tell_these([lane(1)])
    assert list(publishing.records("com.example.assessment")) == [assessment_key(lane(1).uri)]
    (row,) = PublishedRecord.objects.filter(waits=True)
    assert (row.collection, row.record, row.problem) == (ASSESSMENT, None, "you have not allowed this here")


def test_a_deactivated_account_stops_with_one_sentence(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1)])
    publishing.account.deactivate()
    publishing.restart()
    publishing.after(minutes=1)
    publishing.tell_these([lane(2)])
    assert "taken down or deactivated at pds.example.test" in publishing.said()


def test_an_account_that_moved_is_looked_up_anew(publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    ServiceAccount.objects.update(server="https://old.example.test")
    gone = OAuthRefused(
        "old.example.test refused (AccountNotFound); nothing was done", status=401, error="AccountNotFound"
    )
    Lost(monkeypatch, gone, arrives=False)
    publishing.tell_these([lane(1)])
    publishing.after(seconds=31)
    publishing.tell_these([lane(1)])
    assert ServiceAccount.objects.get().server == "https://pds.example.test"
    assert publishing.records() == publishing.table()
