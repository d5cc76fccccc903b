"""The schemas of what is published: the reference code takes them, resolves them, and finds our records valid."""

import json
import os
import random
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.oauth.scopes import DEFINITION, SCHEMA
from ingest.records.registry import documents
from scoring.queries import read
from scoring.queries.read import Outcome, PublicLane
from tests.conftest import Count
from tests.peers.network import PLC_HOST, Account, RealNetwork
from tests.sources import PROJECT
from tests.triage.worlds.publishing_site import ASSESSMENT, DECIDED, OWN, SERVICE, PublishingSite, lane
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing.records import note_lanes

pytestmark = pytest.mark.django_db
CHECKER = PROJECT / "tests" / "peers" / "lexicons.mjs"
WRONG = {ASSESSMENT: "decision", DEFINITION: "valueType"}


def check(network: RealNetwork, account: Account, records: list[Any], *foreign: Any) -> dict[str, Any]:
    """Ask the reference code; `foreign` are lexicons of others."""
    told = {
        "documents": list(documents(OWN).values()),
        "foreign": foreign,
        "did": account.did,
        "plc": network.port_of(PLC_HOST),
        "pds": network.pds_port,
        "records": records,
    }
    command = ["node", "--input-type=module", "--eval", CHECKER.read_text()]
    asked, folder = f"{json.dumps(told)}\n", Path(os.environ["PEERS_DIR"])
    run = subprocess.run(command, cwd=folder, input=asked, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2_000:]
    return json.loads(run.stdout)


def made_up(number: int, draws: random.Random) -> PublicLane:
    """Anything that may be told."""
    outcome = draws.choice(
        [None, *(Outcome(state, DECIDED + timedelta(seconds=number)) for state in ("merged", "closed"))]
    )
    return lane(
        number,
        draws.choice(read.PUBLIC_LANES[:3]),
        patch_id=draws.choice([None, "ab" * 32]),
        repo=draws.choice(["", "did:plc:" + "r" * 24]),
        reasons=tuple(draws.sample(sorted(read.PUBLIC_REASONS), draws.randrange(20))),
        certificate=draws.choice([None, "0f" * 32]),
        budget=draws.randrange(1_001),
        shadow=draws.random() < 0.5,
        evaluator="sunstead " + "x" * draws.randrange(120),
        outcome=outcome,
    )


def test_the_reference_resolves_every_schema_and_finds_generated_records_valid(
    publishing: PublishingSite, count: Count, settings: Settings, capsys: pytest.CaptureFixture[str], shared: Path
) -> None:
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "Ana", "mailto:ana@site.example"
    settings.LANE_LABEL = True
    call_command("publish_lexicons")
    told = capsys.readouterr().out
    assert f'_lexicon.sunstead.org TXT "did={publishing.account.did}"' in told
    assert told.count("is published.") == len(documents(OWN))
    draws = random.Random(4)
    note_lanes([made_up(number, draws) for number in range(count(50, 200))], "delayed", publishing.site.now)
    records = [{"$type": row.collection, **row.record} for row in PublishedRecord.objects.all()]
    assert {one["$type"] for one in records} == {ASSESSMENT, SERVICE, DEFINITION}
    wrong = [{**next(one for one in records if one["$type"] == kind), name: 3} for kind, name in WRONG.items()]
    tangled = json.loads((shared / "lexicons" / f"{DEFINITION}.json").read_text())
    answer = check(publishing.network, publishing.account, [*records, *wrong], tangled)
    assert answer["resolved"] == sorted(documents(OWN))
    assert len(answer["invalid"]) == len(WRONG), answer["invalid"]
    call_command("publish_lexicons")
    assert capsys.readouterr().out.count("is published already.") == len(documents(OWN))


def test_under_ones_own_authority_the_permission_sets_name_its_collections(settings: Settings) -> None:
    sets = [one for one in documents("com.example").values() if one["defs"]["main"]["type"] == "permission-set"]
    named = [name for one in sets for part in one["defs"]["main"]["permissions"] for name in part["collection"]]
    assert sorted(named) == ["com.example.approval", "com.example.assessment", "com.example.service"]
    assert OWN not in json.dumps([one["id"] for one in documents("com.example").values()])


def test_without_an_account_nothing_is_published(publishing: PublishingSite) -> None:
    ServiceAccount.objects.all().delete()
    with pytest.raises(CommandError, match="No account is connected"):
        call_command("publish_lexicons")
    assert publishing.records(SCHEMA) == {}
