"""Objections and the wish to be left out: each is saved, answered, logged and sent to the worker in one transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.formatting import visible
from scoring.pipeline.interventions import DAYS
from scoring.queries import read
from scoring.queries.read import RecordObjection
from triage.access.tokens import new_secret
from triage.models import LeaderboardWish, Objection, Person
from triage.models.accounts import is_any, log_change
from triage.models.outbox import put

LONGEST = 10_000  # characters of an objection or an answer, as the lexicon has it
SHOWN = 300  # characters of its text beside the change
ONLY_THE_CONTRIBUTOR = (
    "Only the contributor can ask not to be scored. Choose a pull request, or a repository that you maintain."
)
SPEAKERS = {
    Objection.Source.LINK: "The contributor, by their private link,",
    Objection.Source.SELF: "The contributor",
    Objection.Source.RECORD: "The contributor, by their own record,",
    Objection.Source.MAINTAINER: "A maintainer of {repository}, in the contributor's name,",
}
OBJECTED = "select 1 from triage_objection where did = %s and pull_uri in (%s, '') limit 1"
OPEN = "select 1 from triage_objection where state = 'open' limit 1"
AT_ONCE = 20  # open objections of one contributor
_records = PerSnapshot[tuple[RecordObjection, ...]](1)


class ObjectionProblem(Exception):
    """The reason why nothing was saved: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def object_to(
    did: str, pull_uri: str, repo_key: str, text: str, source: str, by: Person | None, now: datetime
) -> Objection:
    """Save an objection to a decision, or with `pull_uri` "" to being scored at all; a person answers by `due_at`.

    `repo_key` is that of the pull request. A maintainer (`source`) speaks about their own repository, so without a pull
    request `repo_key` is needed, and the objection covers everything sent there. Maintainers' objections never limit
    the contributor's own. Raises ObjectionProblem for an empty or too long text, a second open one about the same
    subject, one that was answered word for word, too many at once, or a maintainer without a repository.
    """
    checked_text = _check_text(text, "An objection")
    if source == Objection.Source.MAINTAINER and not repo_key:
        raise ObjectionProblem(422, ONLY_THE_CONTRIBUTOR)
    with transaction.atomic():
        said = _of_speaker(did, source, repo_key)
        still_open = said.filter(state=Objection.State.OPEN)
        if still_open.filter(pull_uri=pull_uri).exists():
            raise ObjectionProblem(409, "An objection to this is already open. A person answers it.")
        if said.filter(pull_uri=pull_uri, text=checked_text).exists():  # as a page does that is loaded again
            raise ObjectionProblem(409, "You said exactly this before, and it was answered. Write what is new.")
        if still_open.count() >= AT_ONCE:
            raise ObjectionProblem(409, f"{AT_ONCE} objections are already open. Wait for the answers first.")
        saved = Objection.objects.create(
            key=f"page:{new_secret()}",
            did=did,
            pull_uri=pull_uri,
            repo_key=repo_key,
            text=checked_text,
            source=source,
            made_at=now,
            due_at=now + timedelta(days=DAYS),
        )
        log_change(by, "objection.made", now, repo_key, pull_uri or did, source=source)
        _notify_worker(saved, now)
    return saved


def _of_speaker(did: str, source: str, repo_key: str) -> QuerySet:
    """Return the objections about a contributor by one speaker: themselves, or one repository's maintainers."""
    objections = Objection.objects.filter(did=did)
    if source == Objection.Source.MAINTAINER:
        return objections.filter(source=source, repo_key=repo_key)
    return objections.exclude(source=Objection.Source.MAINTAINER)


def answer(key: str, record: RecordObjection | None, by: Person, state: str, text: str, now: datetime) -> Objection:
    """Accept or reject an open objection with an answer, once.

    An objection made by a record is stored here from now on.

    Raises ObjectionProblem where it is answered already, or the answer is empty or too long.
    """
    if state not in (Objection.State.ACCEPTED, Objection.State.REJECTED):
        raise ObjectionProblem(422, "Choose accept or reject.")
    checked_text = _check_text(text, "An answer")
    with transaction.atomic():
        objection = _store_record(record) if record else Objection.objects.get(key=key)
        fields = {"state": state, "answer": checked_text, "answered_by": by, "answered_at": now}
        if not Objection.objects.filter(pk=objection.pk, state=Objection.State.OPEN).update(**fields):
            raise ObjectionProblem(409, "Somebody has already answered this.")
        objection.refresh_from_db()
        log_change(
            by,
            f"objection.{state}",
            now,
            str(objection.repo_key),
            str(objection.pull_uri or objection.did),
            answer=checked_text[:200],
        )
        _notify_worker(objection, now)
    return objection


def unanswered_records(snapshot: Snapshot | None) -> Mapping[str, RecordObjection]:
    """Return the objections made by records that nobody has answered as they are now, by at-uri."""
    records = _records.get(snapshot, "", lambda: read.record_objections(snapshot)) if snapshot else ()
    if not records:
        return {}
    answered = dict(Objection.objects.filter(source=Objection.Source.RECORD).values_list("key", "record_cid"))
    return {record.uri: record for record in records if answered.get(record.uri) != (record.record_cid or "")}


def list_open(snapshot: Snapshot) -> list[tuple[str, str, datetime]]:
    """Return the repository's key, the contributor and the day by which to answer, of each open objection."""
    records = unanswered_records(snapshot)
    made = [(one.repo_key, one.did, one.due_at.replace(tzinfo=UTC)) for one in records.values()]
    if is_any(OPEN):
        stored = Objection.objects.filter(state=Objection.State.OPEN).exclude(key__in=records)
        made += stored.values_list("repo_key", "did", "due_at")
    return made


def wish(did: str, left_out: bool, source: str, by: Person | None, now: datetime) -> None:
    """Save whether a contributor wishes to be left out of the leaderboard."""
    with transaction.atomic():
        fields = {"left_out": left_out, "source": source, "told_at": now}
        LeaderboardWish.objects.update_or_create(did=did, defaults=fields)
        what = "leaderboard.left_out" if left_out else "leaderboard.listed"
        change = log_change(by, what, now, "", did, source=source)
        put("leaderboard_wish", f"leaderboard_wish:{change.pk}", {"did": did}, now)


class Spoken(NamedTuple):
    """An objection beside a change: who spoke and when, the beginning of the text, and what came of it."""

    who: str
    text: str
    state: str


def spoken_about(did: str, pull_uri: str, repo_key: str, repository: str) -> tuple[Spoken, ...]:
    """Return who objected to a decision or to its author's scores, and the state of each objection.

    The newest five, each with the beginning of its text. `repository` is the name of the one with `repo_key`.
    """
    if not is_any(OBJECTED, did, pull_uri):
        return ()
    subject = Q(pull_uri=pull_uri) | Q(pull_uri="", repo_key__in=(repo_key, ""))
    objections = Objection.objects.filter(subject, did=did).order_by("-made_at", "-pk")[:5]
    return tuple(_spoken(objection, repository) for objection in objections)


def speaker_words(source: str, repository: str) -> str:
    """Name the speaker of an objection, as the beginning of a sentence."""
    return SPEAKERS[Objection.Source(source)].format(repository=visible(repository) or "the site")


def _spoken(objection: Any, repository: str) -> Spoken:
    speaker = speaker_words(objection.source, repository if objection.repo_key else "")
    text = visible(" ".join(objection.text.split()))
    told = f"{text[:SHOWN]}{'…' if len(text) > SHOWN else ''}"
    state = (
        f"A person answers by {objection.due_at:%d %b %Y}."
        if objection.state == Objection.State.OPEN
        else f"It was {objection.state} on {objection.answered_at:%d %b %Y}."
    )
    return Spoken(f"{speaker} objected on {objection.made_at:%d %b %Y}", told, state)


def to_tell(key: str) -> dict[str, Any] | None:
    """Return the objection as `scoring.pipeline.interventions.write_objection` takes it; None where it is gone."""
    objection = Objection.objects.filter(key=key).first()
    if objection is None:
        return None
    return {
        "did": objection.did,
        "pull_uri": objection.pull_uri or None,
        "repo_key": (objection.repo_key or None) if objection.source == Objection.Source.MAINTAINER else None,
        "by_maintainer": objection.source == Objection.Source.MAINTAINER,
        "record_cid": objection.record_cid or None,
        "state": objection.state,
        "made_at": naive(objection.made_at),
        "due_at": naive(objection.due_at),
        "answered_at": naive(objection.answered_at) if objection.answered_at else None,
    }


def naive(moment: datetime) -> datetime:
    """Convert an aware time to the store's naive UTC."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _store_record(record: RecordObjection) -> Objection:
    """Return the stored row of a record's objection, created at its first answer; an edited record is open again."""
    since = record.seen_at.replace(tzinfo=UTC)
    fields = {
        "did": record.did,
        "pull_uri": record.pull_uri or "",
        "repo_key": record.repo_key,
        "record_cid": record.record_cid or "",
        "text": record.text[:LONGEST],
        "source": Objection.Source.RECORD,
        "made_at": since,
        "due_at": since + timedelta(days=DAYS),
    }
    objection, _ = Objection.objects.get_or_create(key=record.uri, defaults=fields)
    if objection.record_cid != fields["record_cid"]:
        reopened = {"state": Objection.State.OPEN, "answer": "", "answered_by": None, "answered_at": None}
        objection, _ = Objection.objects.update_or_create(key=record.uri, defaults=fields | reopened)
    return objection


def _notify_worker(objection: Objection, now: datetime) -> None:
    name = f"objection:{objection.pk}:{objection.state}:{now.timestamp():.6f}"
    put("objection", name, {"key": objection.key}, now)


def _check_text(text: str, what: str) -> str:
    trimmed = text.replace("\r\n", "\n").replace("\x00", "").strip()
    if not trimmed:
        raise ObjectionProblem(422, f"{what} needs a text.")
    if len(trimmed) > LONGEST:
        raise ObjectionProblem(422, f"{what} may have {LONGEST:,} characters at most; this one has {len(trimmed):,}.")
    return trimmed
