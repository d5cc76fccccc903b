"""Taking a person out of the web's own tables: what they decided stays in force, without their name."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from scoring.config.repository import DEFAULTS
from scoring.queries.read import WatchedRepository
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from triage.access.tokens import make_link
from triage.models import Action, AuditAnswer, HandledIncident, OutboxEntry, Person, RepositoryChoice, Snooze, outbox
from triage.services.erasure import account_of, forget_account, said_by
from triage.services.lane_closures import Scope, close_lane, open_lane
from triage.services.objections import answer, object_to
from triage.services.repository_settings import save

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PULL = f"at://{MARA}/pull/one"
WATCHED = WatchedRepository(1, REPO, "lantern", SEED, DEFAULTS)


@pytest.fixture(name="ana")
def ana_fixture() -> Person:
    return Person.objects.create(did=ANA, handle="ana.example")


def choose(person: Person) -> None:
    """Ana makes mara a seed, herself none, and lets the fast lane out of shadow mode."""
    after = replace(DEFAULTS, seeds_added=(MARA,), seeds_removed=(ANA,), shadow=False)
    assert save(person, WATCHED, after, DEFAULTS.version, NOW)


def test_who_changed_settings_can_be_erased_and_what_they_set_stays(ana: Person) -> None:
    choose(ana)
    assert forget_account(ANA, "ana.example")
    choice, message = RepositoryChoice.objects.get(), OutboxEntry.objects.get(kind="settings.changed")
    assert choice.changed_by is None
    for kept in (choice.settings, message.payload["settings"]):
        assert (kept["seeds_added"], kept["seeds_removed"], kept["shadow"]) == ([MARA], [], False)


def test_who_is_named_in_settings_is_erased_from_them_and_from_what_tells_of_them(ana: Person) -> None:
    choose(ana)
    assert forget_account(MARA, None)
    choice, message = RepositoryChoice.objects.get(), OutboxEntry.objects.get(kind="settings.changed")
    assert choice.changed_by == ana
    for kept in (choice.settings, message.payload["settings"]):
        assert (kept["seeds_added"], kept["seeds_removed"]) == ([], [ANA])


def test_an_erased_owner_leaves_no_settings_of_their_repository(ana: Person) -> None:
    key = f"at://{SEED}/repository/lantern"
    RepositoryChoice.objects.create(repo_key=key, version=1, settings={}, changed_at=NOW, changed_by=ana)
    forget_account(SEED, None)
    assert not RepositoryChoice.objects.exists()


def test_an_answer_to_the_audit_outlives_whoever_gave_it(ana: Person) -> None:
    told = {"pull_uri": PULL, "round": 0, "record_cid": "bafy", "patch_id": "a" * 64}
    AuditAnswer.objects.create(
        key="k", repo_key=REPO, would_merge=True, because="small", person=ana, made_at=NOW, **told
    )
    payload = {**told, "would_merge": True, "because": "small", "person": ANA, "made_at": NOW.isoformat()}
    outbox.put("audit.answered", "k", payload, NOW)
    forget_account(ANA, None)
    assert OutboxEntry.objects.get().payload == {**payload, "person": ""}
    assert AuditAnswer.objects.get().person is None


def test_an_account_is_told_whatever_it_decided_here(ana: Person) -> None:
    choose(ana)
    closure, _ = close_lane(ana, Scope(REPO), "one went wrong", NOW)
    open_lane(ana, closure, "it was mended", NOW)
    AuditAnswer.objects.create(
        key="k", pull_uri=PULL, repo_key=REPO, round=0, would_merge=False, because="too large", person=ana, made_at=NOW
    )
    make_link(ana, MARA, REPO, "", NOW)
    objection = object_to(MARA, "", "", "Why?", "link", None, NOW)
    answer(str(objection.key), None, ana, "accepted", "You are right.", NOW)
    told = account_of(ANA) or {}
    assert [one["because"] for one in told["lane_closures"]] == ["one went wrong"]
    assert [one["opened_because"] for one in told["lane_openings"]] == ["it was mended"]
    assert [one["because"] for one in told["audit_answers"]] == ["too large"]
    assert [one["answer"] for one in told["objections_answered"]] == ["You are right."]
    assert [one["did"] for one in told["links_made"]] == [MARA]
    assert [one["repo_key"] for one in told["settings"]] == [REPO]


def snoozed(person: Person, uri: str = PULL, repo_key: str = REPO) -> None:
    """A row that this person hid until it changes."""
    Snooze.objects.create(
        key=uri[-40:], pull_uri=uri, repo_key=repo_key, person=person, made_at=NOW, round=0, lane="own", comments=0
    )


@pytest.mark.parametrize(("gone", "left"), [(ANA, 0), (MARA, 1), (SEED, 1)])
def test_a_snooze_goes_with_its_maker_with_the_author_and_with_the_repository(
    ana: Person, gone: str, left: int
) -> None:
    snoozed(ana)
    snoozed(ana, f"at://{'did:plc:' + 'o' * 24}/pull/two", f"at://{SEED}/repository/lantern")
    assert len((account_of(ANA) or {})["snoozes"]) == 2
    assert len(said_by(MARA)["snoozes"]) == 1
    forget_account(gone, None)
    assert Snooze.objects.count() == left
    assert [one.person for one in Snooze.objects.all()] == [ana] * left


def test_a_handled_incident_outlives_who_handled_it_and_goes_with_its_mark(ana: Person) -> None:
    ben = Person.objects.create(did=SEED)
    told = {"kind": "outcome", "outcome": "reverted", "round": 0, "made_at": NOW, "effective_at": NOW}
    mark = Action.objects.create(key="m", person=ben, pull_uri=PULL, repo_key=REPO, **told)
    HandledIncident.objects.create(mark=mark, person=ana, handled_at=NOW, conclusion="Fixed since")
    told = {"mark__pull_uri": PULL, "handled_at": NOW, "conclusion": "Fixed since"}
    assert (account_of(ANA) or {})["handled_incidents"] == [told]
    forget_account(ANA, None)
    left = HandledIncident.objects.get()
    assert (left.person, left.conclusion) == (None, ""), "their words go with them"
    forget_account(MARA, None)
    assert not HandledIncident.objects.exists()
