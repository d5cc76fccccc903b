"""The records that this site publishes: each as it should be, written down here before anything is sent.

A row is the newest state of one record; what it was before is never sent any more. `publisher` beside it brings the
service account's repository to these rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from ingest.oauth.records import add_time, make_assessment, make_definition, make_service
from ingest.oauth.scopes import DEFINITION, published_collections
from ingest.records.assessment import assessment_key
from scoring.config.repository import Publish
from scoring.queries.read import PublicLane
from triage.models import Person, PublishedRecord, ServiceAccount
from triage.models.accounts import log_change
from triage.services.publishing.labels import VALUES

SERVICE_KEY = "self"
LANE_LABEL_KEY = "sunstead-lane"  # of the definition of the label of Tangled, and its name
AT_ONCE = 500  # rows written in one statement


@dataclass(frozen=True, slots=True)
class Counts:
    """How many assessments are public, and how many records wait to be written or deleted."""

    public: int
    to_write: int
    to_delete: int


def service_account() -> ServiceAccount | None:
    """Return the account as which this site publishes, if it has one; a demo or a replay never has."""
    return None if settings.STAGED else ServiceAccount.objects.first()


def note_lanes(lanes: Iterable[PublicLane], publishes: Publish, now: datetime) -> int:
    """Write down what should be public now; return how many records are to be changed. Nothing without an account."""
    if service_account() is None:
        return 0
    assessments, _ = published_collections(settings.LEXICON_AUTHORITY)
    with transaction.atomic():
        account = ServiceAccount.objects.get()
        rows = {(row.collection, row.rkey): row for row in PublishedRecord.objects.all()}
        wanted: dict[tuple[str, str], PublishedRecord] = {}
        if not account.retracting:
            for lane in lanes:
                key = (assessments, assessment_key(lane.uri))
                if row := _wanted_row(rows.get(key), lane, key, now):
                    wanted[key] = row
            own = _own_records(publishes, is_told=bool(wanted))
            wanted |= {key: _own_row(rows.get(key), key, record, now) for key, record in own.items()}
        changed = [row for row in wanted.values() if row.pk is None or row.changed_at == now]
        changed += [_taken_back(row, now) for key, row in rows.items() if key not in wanted and row.record is not None]
        _write_rows(changed)
    return len(changed)


def retract_all(by: Person | None, now: datetime) -> int:
    """Have every public record deleted and publish nothing more; return how many are to go."""
    with transaction.atomic():
        ServiceAccount.objects.update(retracting=True)
        count = take_back(PublishedRecord.objects.all(), now)
        log_change(by, "publishing.retracted", now, records=count)
        transaction.on_commit(wake_worker)
    return count


def forget_published(did: str, now: datetime) -> int:
    """Have the records about a person, and about repositories of theirs, deleted; keep nothing that names them."""
    about = Q(author=did) | Q(pull_uri__startswith=f"at://{did}/")
    owned = Q(repo_key=did) | Q(repo_key__startswith=f"at://{did}/")
    return take_back(PublishedRecord.objects.filter(about | owned), now, pull_uri="", author="", repo_key="")


def take_back(rows: QuerySet, now: datetime, **forgotten: str) -> int:
    """Have these records deleted, at once and before anything else is sent."""
    return rows.update(record=None, waits=True, changed_at=now, due_at=now, tries=0, problem="", **forgotten)


def count_records() -> Counts:
    """Return how far the records are."""
    rows = PublishedRecord.objects
    assessments, _ = published_collections(settings.LEXICON_AUTHORITY)
    return Counts(
        rows.filter(collection=assessments, record__isnull=False, waits=False).count(),
        rows.filter(waits=True, record__isnull=False).count(),
        rows.filter(waits=True, record__isnull=True).count(),
    )


def publishing_notes() -> tuple[str, ...]:
    """Return a sentence on what keeps records from being published, if anything does."""
    account = service_account()
    return (f"Publishing: {account.problem}",) if account and account.problem else ()


def label_definition() -> str:
    """Return the at-uri of the definition of this site's label of Tangled, "" while none is published."""
    if not settings.LANE_LABEL or service_account() is None:
        return ""
    stored = PublishedRecord.objects.filter(collection=DEFINITION, rkey=LANE_LABEL_KEY, record__isnull=False)
    row = stored.exclude(cid="").first()
    return _uri_of(row) if row else ""


def records_about(did: str) -> list[dict[str, Any]]:
    """Return what is public about a person, or is about to be."""
    rows = PublishedRecord.objects.filter(author=did, record__isnull=False).order_by("pk")
    return [{"uri": _uri_of(row), "record": row.record, "is_sent": not row.waits} for row in rows]


def _uri_of(row: PublishedRecord) -> str:
    account = service_account()
    return f"at://{account.did if account else ''}/{row.collection}/{row.rkey}"


def _wanted_row(
    row: PublishedRecord | None, lane: PublicLane, key: tuple[str, str], now: datetime
) -> PublishedRecord | None:
    """Return the row as it should be; None where nothing is to be told."""
    before = row.record if row else None
    if lane.lane == "withdrawn" and before is None:
        return None  # nothing was told of it before
    record = _record_of(lane)
    if row is not None and before is not None and _says_same(before, record):
        return row
    row = row or PublishedRecord(collection=key[0], rkey=key[1])
    row.pull_uri, row.author, row.repo_key = lane.uri, lane.author, lane.repository
    return _renewed(row, add_time(record, _naive(now)), now)


def _record_of(lane: PublicLane) -> dict[str, Any]:
    policy: dict[str, Any] = {"budget": lane.budget, "shadow": lane.shadow}
    outcome = (lane.outcome.state, lane.outcome.at) if lane.outcome else None
    return make_assessment(
        subject=(lane.uri, lane.cid),
        decision=lane.lane,
        reasons=lane.reasons,
        evaluator=lane.evaluator,
        policy=policy | ({"certificate": lane.certificate} if lane.certificate else {}),
        patch_id=lane.patch_id,
        repo=lane.repo,
        outcome=outcome,
    )


def _says_same(before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether a record needs no change: of a decided one only what was decided counts.

    Else a later change of the repository's mode or of the evaluator would rewrite what was said at the time.
    """
    names = ("subject", "decision", "reasons", "outcome") if "outcome" in record else record.keys() | before.keys()
    return all(before.get(name) == record.get(name) for name in names if name != "createdAt")


def _own_records(publishes: Publish, is_told: bool) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records about no pull request, by their keys: of the service, and the definition of the label."""
    records = {}
    if publishes != "off" or is_told:
        collections = published_collections(settings.LEXICON_AUTHORITY)
        policy = f"{settings.PUBLIC_ORIGIN}/about" if settings.PUBLIC_ORIGIN else ""
        described = settings.OPERATOR_NAME, settings.OPERATOR_CONTACT, policy
        records[collections[1], SERVICE_KEY] = make_service(collections, publishes, *described)
    if settings.LANE_LABEL:
        records[DEFINITION, LANE_LABEL_KEY] = make_definition(LANE_LABEL_KEY, VALUES.values())
    return records


def _own_row(
    row: PublishedRecord | None, key: tuple[str, str], record: Mapping[str, Any], now: datetime
) -> PublishedRecord:
    """Return the row as it should be, of a record about no pull request."""
    if row is not None and row.record is not None and _says_same(row.record, record):
        return row
    row = row or PublishedRecord(collection=key[0], rkey=key[1])
    return _renewed(row, add_time(record, _naive(now)), now)


def _taken_back(row: PublishedRecord, now: datetime) -> PublishedRecord:
    row.pull_uri = row.author = row.repo_key = ""  # it may wait for long, and only says what is to be deleted
    return _renewed(row, None, now)


def _renewed(row: PublishedRecord, record: dict[str, Any] | None, now: datetime) -> PublishedRecord:
    row.record, row.waits, row.changed_at, row.due_at = record, True, now, now
    row.tries, row.problem = 0, ""
    return row


def _write_rows(rows: Sequence[PublishedRecord]) -> None:
    fields = ["pull_uri", "author", "repo_key", "record", "waits", "changed_at", "due_at", "tries", "problem"]
    PublishedRecord.objects.bulk_create([row for row in rows if row.pk is None], batch_size=AT_ONCE)
    PublishedRecord.objects.bulk_update([row for row in rows if row.pk is not None], fields, batch_size=100)


def _naive(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(tzinfo=None)


def wake_worker() -> None:
    """Have the worker publish what changed."""
    from triage.tasks import wake_publisher

    wake_publisher()
