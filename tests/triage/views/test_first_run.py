"""First run: whose repositories, which of them, what may leave this machine, and how far the reading is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.records.registry import VOUCH
from scoring.queries import read
from tests.triage.worlds.acting_site import invited, signed_in
from tests.triage.worlds.first_site import (
    ANA,
    ATTIC_RECORD,
    BEN,
    CARA,
    KNOT,
    LANTERN,
    PDS,
    RECORD,
    FirstSite,
    admin,
    first_site,
)
from triage.models import Change, OutboxEntry
from triage.views.setup import LOST, MALFORMED, NONE_TICKED, RECORDED

pytestmark = pytest.mark.django_db


@pytest.fixture
def first(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirstSite]:
    with first_site(tmp_path, settings, monkeypatch) as site:
        yield site


@pytest.fixture
def sam() -> Client:
    """The browser of an admin of the site."""
    return admin()


def text(answer: Any) -> str:
    return answer.content.decode()


def find(first: FirstSite, client: Client, who: str = "ana.example.test") -> str:
    """What the page says once the worker has looked."""
    assert client.post("/setup/find", {"who": who})["Location"] == "/setup"
    first.work()
    return text(client.get("/setup"))


def begin(client: Client, *records: str, **reviews: str) -> int:
    told = {"record": list(records)} | {f"review:{record}": mode for record, mode in reviews.items()}
    return client.post("/setup/begin", told).status_code


def test_from_a_handle_to_a_queue(first: FirstSite, sam: Client) -> None:
    shown = find(first, sam)
    for words in ("lantern", "attic", "ana.example.test", PDS, f"<bdi>{BEN}</bdi>", "starts by watching"):
        assert words in shown
    assert begin(sam, RECORD, **{RECORD: "claude"}) == 302
    handed = text(sam.get("/setup"))
    assert "The time it takes is not known yet." in handed
    assert "The worker applies your choice within seconds." in handed
    first.work()
    first.judge()
    done = text(sam.get("/setup"))
    assert "The inbox is ready." in done
    assert "Done." in done
    queue = text(sam.get("/"))
    assert "Trim the wick" in queue
    with first.store.read() as rows:
        (watched,) = read.watched_repositories(rows)
    assert (watched.key, watched.settings.review, watched.settings.shadow) == (LANTERN, "claude", True)


def test_what_the_worker_has_taken_and_no_snapshot_shows_yet_is_under_way(first: FirstSite, sam: Client) -> None:
    """A page that asks between the delivery and the next snapshot would say nothing, and ask no more."""
    find(first, sam)
    begin(sam, RECORD)
    first.take_over()
    for page in ("/setup", "/setup/progress"):
        shown = text(sam.get(page))
        assert "The worker applies your choice within seconds." in shown, page
        assert 'hx-trigger="every 2s"' in shown, page
    first.work()
    assert "The inbox is ready." in text(sam.get("/setup/progress"))


def test_a_second_repository_is_not_called_usable_on_the_word_of_the_first(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    begin(sam, RECORD)
    first.work()
    find(first, sam)
    begin(sam, ATTIC_RECORD)
    first.take_over()
    assert "The inbox is ready." not in text(sam.get("/setup/progress"))
    first.work()
    assert "The inbox is ready." in text(sam.get("/setup/progress"))


def test_everybody_the_answers_lead_to_is_read_within_one_run(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    begin(sam, RECORD)
    first.work()
    with first.store.read() as rows:
        listed = [row["did"] for row in rows.rows("select did from backfill_accounts order by did")]
        run = rows.row("select * from backfills")
    assert listed == [ANA, BEN, CARA], "owner, who may push, whom they vouch for"
    assert run is not None
    assert (run["reason"], run["state"], run["is_whole"]) == ("setup", "done", False)
    assert first.value("select count(*) from vouches") == 1
    assert any(VOUCH in one or "listRecords" in one for one in first.asked)


def test_before_anything_is_watched_every_page_leads_a_maintainer_there(
    first: FirstSite, sam: Client, settings: Settings, tmp_path: Path
) -> None:
    for page in ("/", "/dashboard", "/leaderboard", f"/c/{ANA}", "/settings", f"/pull/at://{ANA}/a/b"):
        assert sam.get(page)["Location"] == "/setup", page
    fragment = sam.get("/", headers={"hx-request": "true"})
    assert fragment["HX-Redirect"] == "/setup"
    assert sam.get("/people").status_code == 200
    told = text(sam.get("/dashboard", follow=True))
    assert "Nothing is watched yet, so the other pages have nothing to show." in told, "nobody is sent there silently"
    settings.STATUS_PATH = tmp_path / "none.json"
    told = text(sam.get("/dashboard", follow=True))
    assert '<h2 id="ingest-title">Worker has not started yet</h2>' in told, "where the link of the frame leads"


def test_others_are_told_in_words(first: FirstSite) -> None:
    client = signed_in(invited(BEN))
    shown = client.get("/")
    assert shown.status_code == 200
    assert "0 repositories are watched" in text(shown)
    assert client.get("/setup").status_code == 403
    for step in ("find", "begin"):
        assert client.post(f"/setup/{step}").status_code == 403


def test_a_program_is_told_in_json_that_nobody_is_on_the_leaderboard_yet(first: FirstSite, sam: Client) -> None:
    answer = sam.get("/leaderboard", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["rows"]) == (200, [])


def test_strangers_are_sent_to_sign_in(first: FirstSite, client: Client, settings: Settings) -> None:
    assert client.get("/setup")["Location"] == "/sign-in?next=%2Fsetup"
    settings.PUBLIC_READ = True
    assert "sign in" in text(client.get("/"))


def test_what_is_no_account_is_said_and_stays_in_the_form(first: FirstSite, sam: Client) -> None:
    for typed in ("", "did:plc:", "did:key:z6Mk", "<script>", "a" * 9_000, "https://ana.example/", "ana"):
        answer = sam.post("/setup/find", {"who": typed})
        assert answer.status_code == 422
        assert MALFORMED in text(answer)
        assert "<script>" not in text(answer)
    assert 'value="ana"' in text(sam.get("/setup")), "also after the page is opened again"
    assert first.asked == []


@pytest.mark.parametrize(
    ("who", "fault", "sentence"),
    [
        ("nobody.example.test", None, "nobody.example.test leads to no account"),
        ("ana.example.test", PDS, f"The data server {PDS} of ana.example.test did not list its repositories"),
        ("ben.example.test", None, "ben.example.test has no repository"),
        (ANA, "plc.directory", "could not be looked up in the directory"),
    ],
)
def test_whatever_is_missing_is_one_sentence_and_nothing_typed_is_lost(
    first: FirstSite, sam: Client, who: str, fault: str | None, sentence: str
) -> None:
    if fault:
        first.faults[fault] = 502
    shown = find(first, sam, who)
    assert sentence in shown
    assert f'value="{who}"' in shown
    if fault:
        first.faults.clear()
        assert "lantern" in find(first, sam, who), "it can be tried again"


def test_a_knot_that_is_silent_is_told_and_holds_nothing_up(first: FirstSite, sam: Client) -> None:
    first.faults[KNOT] = 503
    shown = find(first, sam)
    assert "Others with push access are not known yet" in shown
    assert begin(sam, RECORD) == 302
    first.work()
    assert first.value("select count(*) from watched_repositories") == 1


def test_without_a_worker_nothing_is_asked_and_the_page_says_what_to_do(first: FirstSite, sam: Client) -> None:
    first.status.unlink()
    answer = sam.post("/setup/find", {"who": "ana.example.test"})
    assert answer.status_code == 422
    assert "starts it with make run" in text(answer)
    assert 'value="ana.example.test"' in text(answer)


def test_nothing_is_added_to_a_recording(first: FirstSite, sam: Client, settings: Settings) -> None:
    settings.STREAM_CLOCK = True
    answer = sam.post("/setup/find", {"who": "ana.example.test"})
    assert (answer.status_code, RECORDED in text(answer)) == (422, True)


def test_while_it_looks_the_step_is_polled_and_then_the_page_is_loaded(first: FirstSite, sam: Client) -> None:
    sam.post("/setup/find", {"who": "ana.example.test"})
    shown = text(sam.get("/setup"))
    assert "Asking the worker." in shown
    assert '<meta http-equiv="refresh"' in shown
    step = sam.get("/setup/looking")
    assert "HX-Refresh" not in step
    assert sam.get("/setup/looking", headers={"if-none-match": step["ETag"]}).status_code == 304
    first.work()
    assert sam.get("/setup/looking", headers={"if-none-match": step["ETag"]})["HX-Refresh"] == "true"


def test_the_progress_costs_a_304_while_nothing_changes(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    begin(sam, RECORD)
    before = sam.get("/setup/progress")
    assert (before.status_code, "no-cache" in before["Cache-Control"]) == (200, True)
    same = sam.get("/setup/progress", headers={"if-none-match": before["ETag"]})
    assert (same.status_code, same.content, same["ETag"]) == (304, b"", before["ETag"])
    assert admin(BEN).get("/setup/progress")["ETag"] != before["ETag"], "it is somebody else's page"
    first.work()
    assert sam.get("/setup/progress", headers={"if-none-match": before["ETag"]}).status_code == 200


def test_nothing_ticked_begins_nothing(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    answer = sam.post("/setup/begin", {})
    assert (answer.status_code, NONE_TICKED in text(answer)) == (422, True)
    assert not OutboxEntry.objects.exists()


def test_a_record_that_was_not_listed_cannot_be_watched(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    assert begin(sam, f"at://{CARA}/sh.tangled.repo/trap") == 422
    assert not OutboxEntry.objects.exists()


def test_ticks_outlive_an_answer_that_is_lost(first: FirstSite, sam: Client) -> None:
    from ingest.worker.runtime import huey

    find(first, sam)
    huey.flush()  # as a worker does that starts anew
    answer = sam.post("/setup/begin", {"record": [ATTIC_RECORD], f"review:{ATTIC_RECORD}": "off"})
    assert answer.status_code == 409
    assert LOST in text(answer)
    sam.post("/setup/find", {"who": "ana.example.test"})
    first.work()
    shown = text(sam.get("/setup"))
    assert f'value="{ATTIC_RECORD}" checked' in shown
    assert '<option value="off" selected>' in shown


def test_what_was_begun_is_in_the_log_and_again_is_harmless(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    begin(sam, RECORD)
    first.work()
    assert list(Change.objects.values_list("what", "subject")) == [("repository.watched", RECORD)]
    shown = find(first, sam)
    assert "Already watched" in shown
    assert begin(sam, ATTIC_RECORD) == 302
    first.work()
    assert first.value("select count(*) from watched_repositories") == 2
    assert first.value("select count(*) from backfills where reason = 'setup' and state = 'done'") == 2


def test_a_review_mode_that_is_none_of_the_three_sends_nothing(first: FirstSite, sam: Client) -> None:
    find(first, sam)
    begin(sam, RECORD, **{RECORD: "everything"})
    first.work()
    with first.store.read() as rows:
        assert read.watched_repositories(rows)[0].settings.review == "deterministic"


def test_a_store_made_anew_watches_and_reads_it_again(
    first: FirstSite, sam: Client, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(first, sam)
    begin(sam, RECORD)
    first.work()
    with first_site(tmp_path / "anew", settings, monkeypatch) as anew:
        sam.post("/setup/find", {"who": "ana.example.test"})  # brings the record that watching needs
        anew.work()
        anew.work()
        assert anew.value("select count(*) from watched_repositories") == 1
        assert anew.value("select count(*) from backfills where reason = 'setup'") == 1


def test_pages_of_the_first_run_are_never_kept(first: FirstSite, sam: Client) -> None:
    assert "no-store" in sam.get("/setup")["Cache-Control"]
