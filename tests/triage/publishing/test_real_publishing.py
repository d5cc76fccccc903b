"""Assessments as records in a real data server: what is written, what is taken back, and what stands in the way."""

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from pytest_django import Settings

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import ProofProblem
from ingest.http.fetcher import Fetcher
from ingest.oauth.dpop import DpopSender
from ingest.oauth.scopes import DEFINITION
from ingest.records.assessment import assessment_key
from scoring.queries import read
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MARA
from tests.pipeline import At
from tests.scoring.pipeline.offered_world import SECOND
from tests.scoring.small import OFFERED
from tests.triage.publishing.test_public_lanes import draw
from tests.triage.worlds.publishing_site import (
    ASSESSMENT,
    PLC,
    SERVICE,
    PublishingSite,
    as_text,
    lane,
    prove,
)
from triage import tasks
from triage.models import LeaderboardWish, PublishedRecord, PublishingPoints, ServiceAccount
from triage.services.erasure import forget_account, said_by
from triage.services.publishing import publisher
from triage.services.publishing.publisher import (
    CREATE,
    DAY,
    DELETE,
    FOR_DELETIONS,
    HOUR,
    spend_points,
)
from triage.services.publishing.records import (
    forget_published,
    label_definition,
    publishing_notes,
    retract_all,
)
from triage.services.publishing.service_account import ConnectProblem, connect_password
from trustsite.publishing import look_at, publishing_check

pytestmark = pytest.mark.django_db
HOUR_LONG = timedelta(hours=1)


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


def test_the_whole_repository_names_neither_an_unanswered_audit_nor_anything_of_a_repository_that_is_off(
    publishing: PublishingSite,
) -> None:
    for uri in (OFFERED, SECOND):
        publishing.site.merge(uri)
    publishing.tell()
    assert MARA.encode() not in publishing.car()
    publishing.choose("decided")
    draw(publishing.site.result, SECOND)
    assert publishing.tell() == 2
    assert (MARA.encode() in publishing.car(), ANA.encode() in publishing.car()) == (True, False)
    publishing.choose("off")
    assert (publishing.tell(), publishing.records(), publishing.table()) == (2, {}, {})
    assert MARA.encode() not in publishing.car()


def test_many_changes_end_as_the_table_within_the_points_of_every_hour(
    publishing: PublishingSite, count: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass each minute, as the worker's, over changes that come at any second."""
    changes, pulls, minutes = count(60, 1_000), count(12, 120), count(40, 1_440)
    draws, lanes, lags = random.Random(3), {number: lane(number) for number in range(pulls)}, list[float]()
    moments = sorted(draws.uniform(0, minutes * 60) for _ in range(changes))
    begun = publishing.site.now
    for minute in range(1, minutes + 2):
        while moments and moments[0] < minute * 60:
            number = draws.randrange(pulls)
            if draws.random() < 0.1:
                lanes.pop(number, None)
            else:
                drawn = draws.choice(read.PUBLIC_LANES)
                lanes[number] = lane(number, drawn, budget=len(moments) % 1_000, outcome=None)
            lags.append(minute * 60 - moments.pop(0))
        publishing.site.now = begun + timedelta(minutes=minute)
        publishing.tell_these(lanes.values())
        if PublishedRecord.objects.filter(waits=True).exists():
            lags[-1] += 60
    assert publishing.records() == publishing.table()
    told = {rkey: (one["decision"], one["policy"]["budget"]) for rkey, one in publishing.records().items()}
    wanted = {assessment_key(one.uri): (one.lane, one.budget) for one in lanes.values()}
    assert {key: value for key, value in wanted.items() if value[0] != "withdrawn" or key in told} == told
    for rkey in sorted(publishing.table())[: count(3, pulls)]:
        assert publishing.prove(rkey).record == publishing.records()[rkey]
    spent = dict(PublishingPoints.objects.values_list("minute", "points"))
    hours = [sum(points for at, points in spent.items() if start <= at < start + HOUR_LONG) for start in spent]
    assert max(hours) <= HOUR
    with capsys.disabled():
        lag = sorted(lags)[int(len(lags) * 0.95)]
        print(f"\n{changes} changes, {max(hours):,} points in the fullest hour, lag p95 {lag:.0f} s")  # noqa: T201


def test_when_the_points_are_spent_only_deletions_go_on(
    publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "HOUR", 20)
    monkeypatch.setattr(publisher, "FOR_DELETIONS", 4)
    lanes = [lane(number) for number in range(8)]
    publishing.tell_these(lanes)
    assert len(publishing.records()) + len(publishing.records(SERVICE)) == 5
    assert "points of this hour are spent" in publishing.said()
    publishing.after(minutes=2)
    forget_published(lanes[0].author, publishing.site.now)
    kept = [one for one in lanes if one.author != lanes[0].author]
    publishing.tell_these(kept)
    assert lanes[0].author not in as_text(publishing.records())
    publishing.after(minutes=62)
    publishing.tell_these(kept)
    publishing.after(minutes=62)
    publishing.tell_these(kept)
    assert publishing.records() == publishing.table()
    assert publishing.said() == ""


def test_records_prove_by_the_new_key_after_the_account_got_one(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1), lane(2)])
    one, two = assessment_key(lane(1).uri), assessment_key(lane(2).uri)
    before = publishing.prove(one)
    key = publishing.network.rotate_key(publishing.account.did)
    publishing.after(minutes=1)
    publishing.tell_these([lane(1), lane(2, "fast_lane")])
    assert (resolve(publishing.fetcher, PLC, publishing.account.did).signing_key or "none") in key
    assert publishing.prove(one).record == before.record
    assert publishing.prove(two).record == publishing.records()[two]
    assert publishing.prove(two).rev > before.rev
    other = publishing.network.join(f"other{time.time_ns() % 10**9}")
    with pytest.raises(ProofProblem):
        prove(publishing.network, publishing.fetcher, publishing.account.did, ASSESSMENT, one, key_of=other.did)


def test_an_erased_person_is_gone_from_the_whole_repository_and_from_the_table(publishing: PublishingSite) -> None:
    lanes = [lane(number) for number in range(6)]
    publishing.tell_these(lanes)
    gone = lanes[2].author
    assert gone.encode() in publishing.car()
    assert forget_account(gone, None) >= 1
    names = as_text(list(PublishedRecord.objects.values()))
    assert gone not in names
    publishing.after(seconds=1)
    publishing.tell_these([one for one in lanes if one.author != gone])
    assert gone.encode() not in publishing.car()
    assert publishing.records() == publishing.table()
    assert len(publishing.records()) == len([one for one in lanes if one.author != gone])
    assert said_by(lanes[0].author)["public_records"][0]["record"]["subject"]["uri"] in {one.uri for one in lanes}


def test_who_opts_out_or_objects_is_taken_back_with_the_next_look(publishing: PublishingSite) -> None:
    publishing.choose("decided")
    for uri in (OFFERED, SECOND):
        publishing.site.merge(uri)
    publishing.tell()
    assert len(publishing.records()) == 2
    LeaderboardWish.objects.create(did=MARA, left_out=True, source="self", told_at=publishing.site.now)
    publishing.tell()
    assert MARA.encode() not in publishing.car()
    assert [one["subject"]["uri"] for one in publishing.records().values()] == [SECOND]


def test_a_deleted_pull_request_is_withdrawn_only_where_it_was_told(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1)])
    gone = [lane(number, "withdrawn", reasons=(), outcome=None) for number in (1, 2)]
    publishing.after(minutes=1)
    publishing.tell_these(gone)
    assert {one["subject"]["uri"]: one["decision"] for one in publishing.records().values()} == {
        gone[0].uri: "withdrawn"
    }


def test_what_was_decided_is_not_rewritten_when_mode_or_model_change(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1)])
    before = publishing.records()
    publishing.after(minutes=1)
    publishing.tell_these([lane(1, shadow=True, evaluator="another")])
    assert publishing.records() == before


def test_a_demo_publishes_nothing(publishing: PublishingSite, settings: Settings) -> None:
    settings.STAGED = "a demo with made-up people on this machine"
    publishing.tell_these([lane(1)])
    assert (publishing.records(), PublishedRecord.objects.count(), publishing_notes()) == ({}, 0, ())
    with pytest.raises(ConnectProblem, match="people are made up"):
        connect_password(publishing.account.did, publishing.password, publishing.sender, publishing.site.now)


def test_the_workers_hop_writes_down_and_sends(publishing: PublishingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = publishing.site.result.store, At(publishing.site.now.replace(tzinfo=None))
    runtime = SimpleNamespace(store=store, clock=clock, fetcher=publishing.fetcher)
    monkeypatch.setattr(tasks, "current", lambda: runtime)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    monkeypatch.setattr(tasks, "_publishers", [])
    publishing.choose("decided")
    publishing.site.merge(OFFERED)
    tasks.publish_assessments.call_local()
    assert list(publishing.records()) == [assessment_key(OFFERED)]
    ServiceAccount.objects.all().delete()
    tasks.publish_assessments.call_local()


def test_taking_everything_back_leaves_nothing_and_connecting_again_begins_anew(publishing: PublishingSite) -> None:
    publishing.tell_these([lane(1), lane(2)])
    retract_all(None, publishing.site.now)
    publishing.tell_these([lane(1), lane(2)])
    assert (publishing.records(), publishing.records(SERVICE)) == ({}, {})
    assert not PublishedRecord.objects.exists()
    connect_password(publishing.account.did, publishing.password, publishing.sender, publishing.site.now)
    publishing.tell_these([lane(1)])
    assert len(publishing.records()) == 1


def test_the_label_of_tangled_is_defined_while_the_experiment_is_on_and_other_definitions_are_left_alone(
    publishing: PublishingSite, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    own = publishing.account.did
    publishing.account.create(DEFINITION, {"name": "by hand"}, "other")
    assert (publishing.tell(), list(publishing.records(DEFINITION))) == (0, ["other"])
    settings.LANE_LABEL = True
    assert (publishing.tell(), label_definition()) == (1, f"at://{own}/{DEFINITION}/sunstead-lane")
    record = publishing.records(DEFINITION)["sunstead-lane"]
    assert {"sunstead-lane": record} == publishing.table(DEFINITION)
    assert (record["name"], record["scope"], record["multiple"]) == ("sunstead-lane", ["sh.tangled.repo.pull"], False)
    assert record["valueType"]["enum"] == ["fast-lane", "needs-human", "withdrawn"]
    publishing.restart()
    publishing.after(hours=1)
    assert (publishing.tell(), publishing.said()) == (0, ""), "it stands, and the other one is nobody's stray"
    call_command("service_account", "--status")
    told = capsys.readouterr().out
    assert f"The definition of the label is at://{own}/{DEFINITION}/sunstead-lane." in told
    assert "It holds 1 record, and this site knows of 1." in told
    publishing.account.put(f"at://{own}/{DEFINITION}/sunstead-lane", {**record, "name": "another"})
    publishing.restart()
    publishing.tell()
    assert publishing.records(DEFINITION)["sunstead-lane"] == record
    settings.LANE_LABEL = False
    assert (label_definition(), publishing.tell(), list(publishing.records(DEFINITION))) == ("", 1, ["other"])
    settings.LANE_LABEL = True
    publishing.after(minutes=1)
    publishing.tell()
    retract_all(None, publishing.site.now)
    publishing.tell()
    assert (label_definition(), list(publishing.records(DEFINITION))) == ("", ["other"])


def test_news_leave_points_of_the_day_for_deletions() -> None:
    now = datetime(2026, 11, 1, 12, tzinfo=UTC)
    PublishingPoints.objects.create(minute=now - timedelta(hours=3), points=DAY - 10 * FOR_DELETIONS)
    assert not spend_points(CREATE, now)
    assert spend_points(DELETE, now)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["did={}"], "leads to its schemas"),
        ([], "has no TXT record of a DID"),
        (["v=spf1"], "has no TXT record of a DID"),
        (["did={}", "did=did:plc:another"], "and did=did:plc:another: set"),
    ],
)
def test_the_doctor_looks_whether_the_operators_own_domain_leads_to_the_schemas(
    publishing: PublishingSite, settings: Settings, texts: list[str], words: str
) -> None:
    account, asked = ServiceAccount.objects.get(), list[str]()

    def answer(name: str) -> list[str]:
        asked.append(name)
        return [text.format(account.did) for text in texts]

    sender = DpopSender(Fetcher(publishing.network.origin, texts=answer))
    assert all(is_fine for is_fine, _ in look_at(account, sender))
    assert asked == [], "org.sunstead is not theirs"
    settings.LEXICON_AUTHORITY = "com.example"
    (found,) = (found for found in look_at(account, sender) if "_lexicon.example.com" in found[1])
    assert asked == ["_lexicon.example.com"]
    assert (found[0], words in found[1]) == (words == "leads to its schemas", True)
    sender.fetcher.close()


def test_records_under_another_authority_are_taken_back(publishing: PublishingSite, settings: Settings) -> None:
    publishing.tell_these([lane(1)])
    settings.LEXICON_AUTHORITY = "com.example"
    publishing.after(minutes=1)
    publishing.tell_these([lane(1)])
    assert (publishing.records(), publishing.records(SERVICE)) == ({}, {})
    assert list(publishing.records("com.example.assessment")) == [assessment_key(lane(1).uri)]


def test_the_accounts_own_password_and_a_wrong_one_connect_nothing(publishing: PublishingSite) -> None:
    before = ServiceAccount.objects.get()
    for password, words in (("correct horse", "make an app password"), ("aaaa-bbbb-cccc-dddd", "does not take this")):
        with pytest.raises(ConnectProblem, match=words):
            connect_password(publishing.account.handle, password, publishing.sender, publishing.site.now)
    publishing.tell_these([lane(1)])
    other = publishing.network.join(f"other{time.time_ns() % 10**9}")
    with pytest.raises(ConnectProblem, match="are still public: take them back first"):
        connect_password(other.did, other.app_password(), publishing.sender, publishing.site.now)
    assert ServiceAccount.objects.get() == before
    assert publishing.password not in as_text(list(ServiceAccount.objects.values()))


def test_the_command_and_the_doctor_say_how_the_account_is(
    publishing: PublishingSite, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    publishing.tell_these([lane(1), lane(2)])
    call_command("service_account", "--status")
    told = capsys.readouterr().out
    for words in ("2 assessments are public", "of 5,000 points", "It may be written to.", "proves its records."):
        assert words in told
    assert "It holds 3 records, and this site knows of 3." in told
    check = publishing_check(publishing.fetcher, network=True)
    patient = SimpleNamespace(places=SimpleNamespace(accounts=Path(__file__)))
    assert check(patient)[0]  # ty: ignore[invalid-argument-type]
    publishing.account.create(ASSESSMENT, {"decision": "needs_human"}, "made-up")
    assert "It holds 4 records, and this site knows of 3" in check(patient)[1]  # ty: ignore[invalid-argument-type]
    refusal = {"problem": "pds.example.test refused (InvalidRecord); nothing was done"}
    PublishedRecord.objects.filter(rkey="self").update(**refusal)
    found = check(patient)  # ty: ignore[invalid-argument-type]
    assert found == (False, f"The server refuses 1 record, such as self: {refusal['problem']}.")
    call_command("service_account", "--retract-all")
    assert "The worker deletes 3 records now." in capsys.readouterr().out
