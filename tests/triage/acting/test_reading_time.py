"""The time that maintainers read changes: measured for those who switched it on, told as a sum, deleted at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from scoring.pipeline.lane_history import LaneHistory
from tests.ingest.stream.frames import MARA
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, BEN, ActingSite, last_key
from tests.triage.worlds.watching_site import watching_site
from triage.models import Maintainer, Person, ReadingTime
from triage.services import reading_times
from triage.services.erasure import account_of, forget_account
from triage.views.lanes import lane as lane_view

pytestmark = pytest.mark.django_db


def switch(client: Client, on: bool = True) -> None:
    assert client.post("/lane/time", {"on": str(int(on)), "next": "/lane"}).status_code == 302


def read_and_decide(site: ActingSite, client: Client, seconds: float, kind: str = "approve", version: int = 0) -> None:
    assert client.get(f"/diff/{OFFERED}").status_code == 200
    site.after(seconds)
    assert client.post("/act", site.form(kind, version=version, note="Split it.")).status_code in (200, 302)


def measured() -> list[int | None]:
    return list(ReadingTime.objects.order_by("pk").values_list("seconds", flat=True))


def test_nothing_is_kept_of_who_did_not_switch_it_on(site: ActingSite, ana: Client) -> None:
    read_and_decide(site, ana, 90)
    assert measured() == []


@pytest.mark.parametrize("kind", ["approve", "request_changes", "close"])
def test_the_time_from_opening_a_change_to_the_verdict_is_kept(site: ActingSite, ana: Client, kind: str) -> None:
    switch(ana)
    read_and_decide(site, ana, 90, kind)
    assert measured() == [90]


def test_a_note_is_not_a_verdict(site: ActingSite, ana: Client) -> None:
    switch(ana)
    ana.get(f"/diff/{OFFERED}")
    ana.post("/act", site.form("note", note="I will look at it tomorrow."))
    assert measured() == [None]


def test_what_the_inbox_opens_by_itself_is_not_read_yet(site: ActingSite, ana: Client) -> None:
    switch(ana)
    asks = {"HX-Request": "true", "HX-Target": "open", "HX-Trigger": "first"}
    answer = ana.get(f"/?open={OFFERED}", headers=asks)
    assert 'id="pull-title"' in answer.content.decode(), "the pane shows it"
    assert "HX-Push-Url" not in answer, "the address stays that of the list"
    assert measured() == []
    ana.get(f"/?open={OFFERED}")
    assert measured() == [None]


def test_a_change_that_stood_open_for_longer_than_anybody_reads_is_not_counted(site: ActingSite, ana: Client) -> None:
    switch(ana)
    read_and_decide(site, ana, reading_times.MOST.total_seconds() + 1)
    assert measured() == []


def test_a_change_that_is_opened_again_the_next_day_is_measured_from_then(site: ActingSite, ana: Client) -> None:
    switch(ana)
    ana.get(f"/diff/{OFFERED}")
    site.after(86_400)
    read_and_decide(site, ana, 60)
    assert measured() == [60]


def test_the_first_verdict_counts_and_reading_it_again_changes_nothing(site: ActingSite, ana: Client) -> None:
    switch(ana)
    read_and_decide(site, ana, 60)
    site.after(5)
    ana.post("/act/undo", {"key": last_key()})
    read_and_decide(site, ana, 300, "request_changes", version=2)
    assert measured() == [60]


def test_switching_it_off_deletes_what_was_measured_of_that_person_alone(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    for client in (ana, ben):
        switch(client)
    ana.get(f"/diff/{OFFERED}")
    read_and_decide(site, ben, 60)
    switch(ana, on=False)
    assert measured() == [60]
    assert not Person.objects.get(did=ANA).times_reading


def test_nothing_more_is_kept_of_a_maintainer_who_is_none_any_more_and_they_can_end_it(
    site: ActingSite, ana: Client
) -> None:
    switch(ana)
    Maintainer.objects.update(role="viewer")
    ana.get(f"/diff/{OFFERED}")
    assert measured() == []
    switch(ana, on=False)
    assert not Person.objects.get(did=ANA).times_reading


def test_who_lost_every_role_ends_it_from_their_own_page_and_begins_it_no_more(site: ActingSite, ana: Client) -> None:
    switch(ana)
    ana.get(f"/diff/{OFFERED}")
    Maintainer.objects.all().delete()
    assert "Stop measuring" in b"".join(ana.get("/me")).decode()
    assert ana.post("/lane/time", {"on": "1"}).status_code == 403
    assert ana.post("/lane/time", {"on": "0", "next": "/me"})["Location"] == "/me"
    assert (measured(), Person.objects.get(did=ANA).times_reading) == ([], False)
    assert "Stop measuring" not in b"".join(ana.get("/me")).decode()


def test_a_verdict_after_it_was_switched_off_keeps_nothing(site: ActingSite, ana: Client) -> None:
    switch(ana)
    ana.get(f"/diff/{OFFERED}")
    switch(ana, on=False)
    ana.post("/act", site.form("approve"))
    assert measured() == []


def test_a_change_that_is_settled_is_not_measured(site: ActingSite, ana: Client) -> None:
    switch(ana)
    with site.result.store.write() as txn:
        txn.execute("update pull_requests set state = 'merged' where pull_uri = ?", [OFFERED])
    site.publish()
    assert ana.get(f"/diff/{OFFERED}").status_code == 200
    assert measured() == []


def test_an_action_is_taken_also_where_its_time_cannot_be_noted(
    site: ActingSite, ana: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    switch(ana)
    monkeypatch.setattr(ReadingTime.objects, "filter", locked)
    assert ana.get(f"/diff/{OFFERED}").status_code == 200
    assert ana.post("/act", site.form("approve")).status_code in (200, 302)


def test_a_person_sees_what_was_measured_of_them(site: ActingSite, ana: Client) -> None:
    switch(ana)
    read_and_decide(site, ana, 60)
    told = account_of(ANA)
    assert told is not None
    assert told["times_reading"] is True
    assert [one["seconds"] for one in told["reading_times"]] == [60]


@pytest.mark.parametrize("gone", [ANA, MARA])
def test_it_goes_with_the_reader_and_with_the_author(site: ActingSite, ana: Client, gone: str) -> None:
    assert OFFERED.startswith(f"at://{MARA}/")
    switch(ana)
    read_and_decide(site, ana, 60)
    forget_account(gone, None)
    assert measured() == []


class TestOnTheLanesPage:
    @pytest.fixture
    def site(self, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
        with watching_site(tmp_path, settings, monkeypatch) as made:
            yield made

    def test_it_says_that_nothing_was_measured_until_something_was(self, ben: Client) -> None:
        page = ben.get("/lane").content.decode()
        assert "Time saved: not measured." in page
        assert "Measure my reading" in page
        switch(ben)
        assert "Stop measuring" in ben.get("/lane").content.decode()

    def test_it_tells_the_sum_of_the_changes_that_were_measured_among_all(
        self, site: ActingSite, ben: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watched: list[LaneHistory] = []
        rows = lane_view.watched_lane
        monkeypatch.setattr(lane_view, "watched_lane", lambda *given: watched.append(rows(*given)) or watched[-1])
        ben.get("/lane")
        person, uris = Person.objects.get(did=BEN), [row.uri for row in watched[0].rows]
        for uri in uris[: reading_times.FEWEST - 1]:
            ReadingTime.objects.create(person=person, pull_uri=uri, opened_at=site.now, seconds=100)
        assert f"Time saved: not shown yet: only 4 of {len(uris)} were measured." in ben.get("/lane").content.decode()
        ReadingTime.objects.create(person=person, pull_uri=uris[-1], opened_at=site.now, seconds=130)
        page = ben.get("/lane").content.decode()
        assert f"Time saved: 9 minutes with the change open, in the 5 of {len(uris)} measured." in page
