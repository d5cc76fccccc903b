"""The settings page of a watched repository: who reads, who changes, what is refused, and what the log says."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.store.database import StreamClock
from scoring.config.repository import DEFAULTS, RepositorySettings, watched_repository
from scoring.pipeline.lane_history import ShadowDay, ShadowReport
from scoring.queries import read
from scoring.queries.people import trust
from scoring.queries.read import WatchedRepository
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.pipeline import opened
from tests.scoring.small import settled, take
from tests.triage.worlds.acting_site import invited
from tests.triage.worlds.drawn_rows import MARA as DRAWN_MARA
from tests.triage.worlds.pages_world import DrawnWorld, draw
from triage.models import Change, Maintainer, OutboxEntry, Person, RepositoryChoice
from triage.services.notifying.deliveries import deliver_due
from triage.services.repository_settings import ChangedMeanwhile, save
from trustsite.worker.handover import make_runtime

pytestmark = pytest.mark.django_db
PLACE, SWITCH = "/settings/repository", "/settings/shadow"
SOMEBODY, BOT = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """One watched repository with a hostile name, as a snapshot would tell of it."""
    found = WatchedRepository(1, REPO, HOSTILE, SEED, DEFAULTS)
    draw(monkeypatch, DrawnWorld())
    monkeypatch.setattr(read, "watched_repository", lambda rows, key: found if key == REPO else None)
    monkeypatch.setattr(read, "watched_repositories", lambda rows: (found,))
    monkeypatch.setattr(read, "shadow_report", lambda rows, key: None)


def person(did: str, *keys: str) -> Person:
    made = Person.objects.get_or_create(did=did)[0] if keys else invited(did)
    for key in keys:
        Maintainer.objects.get_or_create(person=made, repo_key=key)
    return made


def signed_in(client: Client, did: str, *keys: str) -> Client:
    client.force_login(person(did, *keys))
    return client


def form(**typed: str) -> dict[str, str]:
    return {"repository": REPO, "version": "0", **typed}


def test_nobody_reads_the_settings_without_signing_in_also_where_reading_is_public(
    client: Client, settings: Settings
) -> None:
    settings.PUBLIC_READ = True
    assert client.get(PLACE, {"repository": REPO}).status_code in (302, 403)
    assert client.get("/settings").status_code in (302, 403)
    assert client.post(PLACE, form(budget="2")).status_code in (302, 403)
    assert not RepositoryChoice.objects.exists()


@pytest.mark.parametrize("keys", [(), ("did:plc:another",)])
def test_a_viewer_and_a_maintainer_of_another_repository_read_and_cannot_change(
    client: Client, keys: tuple[str, ...]
) -> None:
    signed_in(client, ANA, *keys)
    shown = client.get(PLACE, {"repository": REPO})
    assert shown.status_code == 200
    assert "Only maintainers of this repository can change this" in shown.content.decode()
    assert client.post(PLACE, form(budget="2")).status_code == 403
    assert client.post(SWITCH, form(shadow="off")).status_code == 403
    assert not RepositoryChoice.objects.exists()
    assert not Change.objects.exists()


@pytest.mark.parametrize("key", [REPO, ""])
def test_a_maintainer_and_an_admin_change_and_the_log_tells_what_was_before(client: Client, key: str) -> None:
    signed_in(client, ANA, key)
    done = client.post(
        PLACE,
        form(budget="2,5", alarm_budget="1", window_days="30", never_fast_paths="/db/\n\n /db/ \n*.sql"),
        follow=True,
    )
    assert done.redirect_chain
    held = RepositoryChoice.objects.get().settings
    assert (held["budget"], held["window_days"], held["never_fast_paths"]) == (0.025, 30, ["/db/", "*.sql"])
    change = Change.objects.get()
    assert (change.what, change.repo_key, change.person.did) == ("settings.changed", REPO, ANA)
    assert change.details["changes"]["budget"] == [None, 0.025]
    assert change.details["changes"]["alarm_budget"] == [None, 0.01]
    words = done.content.decode()
    assert "as the operator set it, now 2.5 %" in words
    assert "added /db/, *.sql" in words
    assert OutboxEntry.objects.get().payload["settings"]["version"] == 1


def test_time_zones_are_off_until_a_maintainer_switches_them_on(client: Client) -> None:
    signed_in(client, ANA, REPO)
    assert (
        "compared with the same person&#x27;s earlier ones" in client.get(PLACE, {"repository": REPO}).content.decode()
    )
    done = client.post(PLACE, form(time_zones="on"), follow=True)
    assert RepositoryChoice.objects.get().settings["time_zones"] is True
    assert Change.objects.get().details["changes"]["time_zones"] == [False, True]
    assert "Time zones of commits: off, now on." in done.content.decode()


def test_what_nobody_watches_has_no_settings(client: Client) -> None:
    signed_in(client, ANA, "")
    assert client.get(PLACE, {"repository": "did:plc:nobody"}).status_code == 404
    assert client.get(PLACE).status_code == 404
    assert client.post(PLACE, form(repository="did:plc:nobody", budget="2")).status_code == 404


WRONG: list[tuple[str, str, str]] = [
    ("budget", "nan", "a percentage such as 5"),
    ("budget", "0", "between 0.1 % and 50 %"),
    ("budget", "1e5", "a percentage such as 5"),
    ("alarm_budget", "60", "between 0.1 % and 50 %"),
    ("budget", "99", "between 0.1 % and 50 %"),
    ("window_days", "-1", "a whole number of days"),
    ("window_days", "9999", "between 0 and 365 days"),
    ("window_days", "\u0663", "a whole number of days"),
    ("tier", "secret", "public or sensitive"),
    ("review", "openai", "none of the three"),
    ("time_zones", "sometimes", "either on or off"),
    ("never_fast_paths", "\n".join(f"a{n}" for n in range(10_000)), "At most 200 lines, not 10,000"),
    ("never_fast_paths", "[z-a]", "cannot be read"),
    ("sensitive_paths", "a" * 301, "at most 300 characters"),
    ("sensitive_paths", "a" * 80_000, "longer than 70,000 characters"),
    ("seeds_added", "nobody.example.com", "Nobody seen here has the handle “nobody.example.com”"),
    ("seeds_added", "no handle", "is not a DID"),
    ("accepted_issuers", "did:web:127.0.0.1", "is not a DID"),
    ("organisation_domains", "https://example.org", "is not a domain"),
    ("organisation_domains", "localhost", "is not a domain"),
]


@pytest.mark.parametrize(("field", "typed", "sentence"), WRONG)
def test_what_cannot_be_used_is_refused_in_words_and_stays_in_its_field(
    client: Client, field: str, typed: str, sentence: str
) -> None:
    signed_in(client, ANA, REPO)
    refused = client.post(PLACE, form(**{field: typed}))
    assert refused.status_code == 422
    words = refused.content.decode()
    assert sentence in words
    assert "Not saved, nothing changed" in words
    assert field in ("tier", "review", "time_zones") or typed[:40].splitlines()[0] in words
    assert not Change.objects.exists()
    assert not OutboxEntry.objects.exists()


def test_a_handle_is_taken_and_the_page_says_who_that_is(client: Client) -> None:
    signed_in(client, ANA, REPO)
    saved = client.post(PLACE, form(seeds_added=f"@Mara.Example\n{BOT}"), follow=True)
    assert RepositoryChoice.objects.get().settings["seeds_added"] == [DRAWN_MARA.did, BOT]
    page = saved.content.decode()
    assert f'<bdi>mara.example</bdi></a> <span class="mono">{DRAWN_MARA.did}</span>' in page
    assert f'Nobody seen here <span class="mono">{BOT}</span>' in page


def test_each_field_says_what_holds_and_what_the_site_would_have_it_be(client: Client, settings: Settings) -> None:
    settings.FALSE_APPROVAL_BUDGET, settings.LABEL_WINDOW_DAYS = 0.05, 14
    signed_in(client, ANA, REPO)
    before = client.get(PLACE, {"repository": REPO}).content.decode()
    assert "In force: 5 %, the site default." in before
    assert "In force: 14 days, the site default." in before
    assert (before.count('placeholder="5"'), before.count('placeholder="14"')) == (2, 1), "both budgets, and the days"
    assert before.count("In force: none listed.") == 6, "an empty list says that it is empty"
    after = client.post(PLACE, form(budget="2"), follow=True).content.decode()
    assert "In force: 2 %." in after
    assert "that you accept among all that the lane lets through." in after
    assert "Leave empty for the site default (5 %)." in after


def test_a_seed_is_not_both_added_and_removed(client: Client) -> None:
    signed_in(client, ANA, REPO)
    refused = client.post(PLACE, form(seeds_added=BOT, seeds_removed=BOT))
    assert "both added and removed" in refused.content.decode()


def test_a_catastrophic_pattern_is_a_pattern_like_any_other(client: Client) -> None:
    signed_in(client, ANA, REPO)
    pattern = "*a" * 140
    assert client.post(PLACE, form(never_fast_paths=f"{pattern}\n(a+)+$")).status_code == 302
    assert RepositoryChoice.objects.get().settings["never_fast_paths"] == [pattern, "(a+)+$"]


def test_names_and_patterns_from_others_are_escaped(client: Client) -> None:
    signed_in(client, ANA, REPO)
    client.post(PLACE, form(never_fast_paths="</textarea><script>alert(2)</script>"))
    for page in (client.get(PLACE, {"repository": REPO}), client.get("/settings")):
        words = page.content.decode()
        assert "<script>alert" not in words
        assert "\u202e" not in words
    assert "&lt;script&gt;alert(1)" in words


def test_of_two_who_save_at_the_same_time_the_second_is_told(client: Client) -> None:
    signed_in(client, ANA, REPO)
    assert client.post(PLACE, form(budget="2")).status_code == 302
    late = client.post(PLACE, form(budget="9"))
    assert late.status_code == 409
    assert "somebody else changed these settings before you" in late.content.decode()
    assert 'value="2"' in late.content.decode()
    assert RepositoryChoice.objects.get().version == 1


@pytest.mark.parametrize("version", ["", "-1", "1", "9" * 40, "x"])
def test_a_form_that_saw_no_such_version_changes_nothing(client: Client, version: str) -> None:
    signed_in(client, ANA, REPO)
    assert client.post(PLACE, form(budget="2", version=version)).status_code == 409
    assert not RepositoryChoice.objects.exists()


def test_the_same_settings_again_are_no_change(client: Client) -> None:
    signed_in(client, ANA, REPO)
    assert "Nothing was different" in client.post(PLACE, form(tier="public"), follow=True).content.decode()
    assert not Change.objects.exists()


def test_shadow_mode_is_on_until_a_person_switches_it_off_and_that_is_logged(client: Client) -> None:
    signed_in(client, ANA, REPO)
    assert "watching, the lane is shut; changes are read by scanners</span>" in client.get("/settings").content.decode()
    assert "Watching: the lane is shut" in client.get(PLACE, {"repository": REPO}).content.decode()
    done = client.post(SWITCH, form(shadow="off"), follow=True)
    assert "The lane is open" in done.content.decode()
    assert "<strong>Seeds in force:</strong> <a href=" in done.content.decode()
    assert "Only watching: on, now off." in done.content.decode()
    assert Change.objects.get().details["changes"] == {"shadow": [True, False]}


def test_what_others_say_of_the_upstream_is_shown_with_who_says_so_and_only_where_one_is_linked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = signed_in(client, SOMEBODY)
    assert 'id="upstream"' not in page.get(PLACE, {"repository": REPO}).content.decode()
    card = "https://scorecard.dev/viewer/?uri=github.com/ana/lamp"
    facts = (
        read.Signal("OpenSSF Scorecard 6.4 of 10, 16 Nov 2026", "read", "scorecard.dev", card),
        read.Signal(f"ana/lamp: {HOSTILE}", "read", "GitHub", "https://github.com/ana/lamp"),
    )
    monkeypatch.setattr(read, "upstream_facts", lambda rows, key: facts if key == REPO else ())
    shown = page.get(PLACE, {"repository": REPO}).content.decode()
    told = shown.partition('id="upstream"')[2].partition('<div class="card">')[0]
    assert "OpenSSF Scorecard 6.4 of 10, 16 Nov 2026" in told
    assert f'Told by <a href="{card}"' in told
    assert "&lt;script&gt;alert(1)" in told
    assert "<script>alert(1)" not in shown


def test_a_report_says_in_a_sentence_what_became_of_it_all_and_shows_the_days(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = (ShadowDay(date(2026, 11, 19), 3, 2, 1, 0, 0), ShadowDay(date(2026, 11, 18), 1_000, 900, 60, 35, 5))
    report = ShadowReport(REPO, HOSTILE, True, days, ShadowDay(None, 1_003, 902, 61, 35, 5))
    monkeypatch.setattr(read, "shadow_report", lambda rows, key: report)
    page = signed_in(client, SOMEBODY).get(PLACE, {"repository": REPO}).content.decode()
    told = "rounds would have been fast lane: 902 merged as sent, 61 changed, 35 closed, 5 still open."
    assert f"<strong>1,003</strong> {told}" in page
    assert [day in page for day in ("2026-11-19", "2026-11-18")] == [True, True]


def test_a_message_that_the_log_does_not_know_is_never_left() -> None:
    """Saving, logging and the message happen together or not at all."""
    found = WatchedRepository(1, REPO, "core", SEED, DEFAULTS)
    with pytest.raises(ChangedMeanwhile):
        save(person(ANA), found, RepositorySettings(budget=0.02), 7, NOW)
    assert (RepositoryChoice.objects.count(), Change.objects.count(), OutboxEntry.objects.count()) == (0, 0, 0)


def test_what_was_saved_reaches_the_worker_once_and_decides_the_repository_anew(tmp_path: Path) -> None:
    after = RepositorySettings(
        budget=0.02, window_days=30, tier="sensitive", seeds_added=(MARA,), review="off", shadow=False
    )
    with opened(tmp_path) as result:
        take(result, settled())
        with result.reading() as rows:
            found = read_watched(rows)
        assert save(person(ANA), found, after, 0, NOW)
        runtime = make_runtime(result.store, Fetcher(), StreamClock(result.store))
        assert deliver_due(runtime, NOW) == 1
        assert result.judge() > 0
        OutboxEntry.objects.update(delivered_at=None)  # killed before the mark
        assert deliver_due(runtime, NOW) == 1
        assert result.judge() == 0
        with result.reading() as rows:
            held = read_watched(rows)
            seeds = trust.seeds_in_force(rows, held.number)
    assert held.settings == replace(after, version=1)
    assert {one.did for one in seeds} == {SEED, MARA}


def read_watched(rows: Any) -> WatchedRepository:
    found = watched_repository(rows, REPO)
    assert found is not None
    return found
