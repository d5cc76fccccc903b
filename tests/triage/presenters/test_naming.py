"""By what name people stand on pages: what the network confirms, then the account's handle, then the DID."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from tests.ingest.stream.frames import ANA, MARA, SEED, STRANGER
from triage.models import LaneClosure, Person
from triage.services.lane_closures import as_closure, closure_words, names_in
from triage.services.names import named, names

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SHORT = "did:plc:anaaaa…aaaa"


class Network(SimpleNamespace):
    """A snapshot that knows ana without a handle, and seed with one that the network confirms."""

    def rows(self, sql: str, params: object = ()) -> list[dict[str, object]]:
        known = {ANA: (None, False), SEED: ("seed.example", True)}
        if "repositories" in sql:
            return []
        return [{"did": did, "handle": known[did][0], "handle_verified": known[did][1]} for did in known]


NETWORK = cast(Snapshot, Network())


@pytest.fixture(autouse=True)
def accounts() -> None:
    for did, handle in ((ANA, "ana.example"), (SEED, "older.example"), (STRANGER, "")):
        Person.objects.create(did=did, handle=handle)


def test_the_network_is_asked_first_then_the_accounts_and_nobody_is_made_up() -> None:
    assert names(NETWORK, [ANA, SEED, STRANGER, MARA, ""]) == {SEED: "seed.example", ANA: "ana.example"}
    assert names(None, [ANA, MARA]) == {ANA: "ana.example"}


def test_whoever_acted_stands_under_the_handle_of_their_account_where_the_network_knows_none() -> None:
    people = [read.Person(ANA, SHORT), read.Person(SEED, "seed.example"), read.Person(STRANGER, "did:plc:stran…aaaa")]
    changed = [read.ChangedApproval("k", "at://x", person, read.Seen(None, 0, None), NOON) for person in people]
    assert [one.approver.name for one in named(changed, "approver")] == [
        "ana.example",
        "seed.example",
        "did:plc:stran…aaaa",
    ]


def test_a_closure_names_whom_it_is_about() -> None:
    made = LaneClosure(key="k", author=ANA, voucher=SEED, because="x", closed_at=NOON)
    closure = as_closure(made, {})
    words = closure_words(closure, names_in(NETWORK, [closure]))
    assert "for pull requests by ana.example for people vouched for by seed.example in every repository" in words
