"""Make "Label…" possible at an open pull request: its definition, a public lane, and the right to push."""

from django.utils import timezone

from ingest.oauth.scopes import DEFINITION
from tests.ingest.stream.frames import REPO
from tests.triage.worlds.acting_site import ActingSite
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing.records import note_lanes

ACCOUNT = "did:plc:" + "s" * 24
NEEDS_HUMAN = '[{"code":"high_flag","params":{"count":1}}]'


def define_label() -> str:
    """Have the definition be published, with LANE_LABEL; returns its at-uri."""
    now = timezone.now()
    ServiceAccount.objects.create(did=ACCOUNT, server="https://pds.example.test", connected_at=now)
    note_lanes([], "off", now)
    PublishedRecord.objects.update(cid="bafy", waits=False)
    return f"at://{ACCOUNT}/{DEFINITION}/sunstead-lane"


def tell_lanes(site: ActingSite) -> None:
    """Have every open pull request need a human because of its change, where that is told publicly."""
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'needs_human', reasons = ?", [NEEDS_HUMAN])
        txn.execute("update repository_settings set publish = 'delayed', publish_since = timestamp '2026-01-01'")
    site.publish()


def give_push(site: ActingSite, did: str) -> None:
    """Let somebody push to the repository."""
    with site.result.store.write() as txn:
        number = txn.person_ids([did])[did]
        txn.execute(
            "insert into push_holders select repository_id, ?, 'collaborator', 'knot', null, null from repositories "
            "where repo_key = ?",
            [number, REPO],
        )
    site.publish()
