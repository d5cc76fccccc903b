"""Objections and the wish to be left out: written, answered, logged and told to the worker, all or none."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scoring.formatting import visible
from scoring.pipeline.interventions import DAYS, RecordObjection
from triage.access.tokens import new_secret
from triage.models import LeaderboardWish, Objection, Person
from triage.models.accounts import is_any, log_change
from triage.models.outbox import put

LONGEST = 10_000  # characters of an objection or an answer, as the lexicon has it
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
AT_ONCE = 20  # open ones of one contributor


class ObjectionProblem(Exception):
    """The reason why nothing was saved: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def object_to(
    did: str, pull_uri: str, repo_key: str, text: str, source: str, by: Person | None, now: datetime
) -> Objection:
    """Keep an objection to a decision, or with `pull_uri` "" to being scored at all; a person answers by `due_at`.

    `repo_key` is that of the pull request. A maintainer (`source`) speaks about their own repository, so without a pull
    request `repo_key` is needed and it is about all that was offered there. What maintainers say takes nothing of what
    a contributor may say. Raises ObjectionProblem for an empty or too long text, a second open one to the same, too
    many at once, or a maintainer without a repository.
    """
    said = _checked(text, "An objection")
    if source == Objection.Source.MAINTAINER and not repo_key:
        raise ObjectionProblem(422, ONLY_THE_CONTRIBUTOR)
    with transaction.atomic():
        still_open = _of_speaker(did, source, repo_key).filter(state=Objection.State.OPEN)
        if still_open.filter(pull_uri=pull_uri).exists():
            raise ObjectionProblem(409, "An objection to this is already open. A person answers it.")
        if still_open.count() >= AT_ONCE:
            raise ObjectionProblem(409, f"{AT_ONCE} objections are already open. Wait for the answers first.")
        found = Objection.objects.create(
            key=f"page:{new_secret()}",
            did=did,
            pull_uri=pull_uri,
            repo_key=repo_key,
            text=said,
            source=source,
            made_at=now,
            due_at=now + timedelta(days=DAYS),
        )
        log_change(by, "objection.made", now, repo_key, pull_uri or did, source=source)
        _tell(found, now)
    return found


def _of_speaker(did: str, source: str, repo_key: str) -> QuerySet:
    """Objections of one contributor by whoever speaks: themselves, or the maintainers of one repository."""
    found = Objection.objects.filter(did=did)
    if source == Objection.Source.MAINTAINER:
        return found.filter(source=source, repo_key=repo_key)
    return found.exclude(source=Objection.Source.MAINTAINER)


def answer(key: str, record: RecordObjection | None, by: Person, state: str, text: str, now: datetime) -> Objection:
    """Accept or reject an open objection with an answer, once; a record's is kept here from now on.

    Raises ObjectionProblem where it is answered already, or the answer is empty or too long.
    """
    if state not in (Objection.State.ACCEPTED, Objection.State.REJECTED):
        raise ObjectionProblem(422, "Choose accept or reject.")
    said = _checked(text, "An answer")
    with transaction.atomic():
        found = _kept(record) if record else Objection.objects.get(key=key)
        answered = {"state": state, "answer": said, "answered_by": by, "answered_at": now}
        if not Objection.objects.filter(pk=found.pk, state=Objection.State.OPEN).update(**answered):
            raise ObjectionProblem(409, "Somebody has already answered this.")
        found.refresh_from_db()
        log_change(
            by, f"objection.{state}", now, str(found.repo_key), str(found.pull_uri or found.did), answer=said[:200]
        )
        _tell(found, now)
    return found


def wish(did: str, left_out: bool, source: str, by: Person | None, now: datetime) -> None:
    """Keep whether a contributor wishes to be left out of the leaderboard."""
    with transaction.atomic():
        told = {"left_out": left_out, "source": source, "told_at": now}
        LeaderboardWish.objects.update_or_create(did=did, defaults=told)
        what = "leaderboard.left_out" if left_out else "leaderboard.listed"
        change = log_change(by, what, now, "", did, source=source)
        put("leaderboard_wish", f"leaderboard_wish:{change.pk}", {"did": did}, now)


def sentences(did: str, pull_uri: str, repo_key: str, repository: str) -> tuple[str, ...]:
    """Say who objected to a decision, or to all of its author's here or everywhere, and where each objection stands.

    The newest five, without their text. `repository` is the name of the one with `repo_key`.
    """
    if not is_any(OBJECTED, did, pull_uri):
        return ()
    about = Q(pull_uri=pull_uri) | Q(pull_uri="", repo_key__in=(repo_key, ""))
    found = Objection.objects.filter(about, did=did).order_by("-made_at")[:5]
    return tuple(_sentence(one, repository) for one in found)


def speaker_words(source: str, repository: str) -> str:
    """Say who speaks in an objection, as the beginning of a sentence."""
    return SPEAKERS[Objection.Source(source)].format(repository=visible(repository) or "the site")


def _sentence(one: Any, repository: str) -> str:
    since = f"{speaker_words(one.source, repository if one.repo_key else '')} objected on {one.made_at:%d %b %Y}"
    if one.state == Objection.State.OPEN:
        return f"{since}: a person answers by {one.due_at:%d %b %Y}."
    return f"{since}: {one.state} on {one.answered_at:%d %b %Y}."


def to_tell(key: str) -> dict[str, Any] | None:
    """The objection as `scoring.pipeline.interventions.write_objection` takes it; None: it is gone."""
    found = Objection.objects.filter(key=key).first()
    if found is None:
        return None
    return {
        "did": found.did,
        "pull_uri": found.pull_uri or None,
        "repo_key": (found.repo_key or None) if found.source == Objection.Source.MAINTAINER else None,
        "by_maintainer": found.source == Objection.Source.MAINTAINER,
        "record_cid": found.record_cid or None,
        "state": found.state,
        "made_at": naive(found.made_at),
        "due_at": naive(found.due_at),
        "answered_at": naive(found.answered_at) if found.answered_at else None,
    }


def naive(moment: datetime) -> datetime:
    """A time of ours as the store keeps it: UTC without saying so."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _kept(record: RecordObjection) -> Objection:
    """The row of a record's objection, made at its first answer; an edited record is open anew."""
    since = record.seen_at.replace(tzinfo=UTC)
    told = {
        "did": record.did,
        "pull_uri": record.pull_uri or "",
        "repo_key": record.repo_key,
        "record_cid": record.record_cid or "",
        "text": record.text[:LONGEST],
        "source": Objection.Source.RECORD,
        "made_at": since,
        "due_at": since + timedelta(days=DAYS),
    }
    found, _ = Objection.objects.get_or_create(key=record.uri, defaults=told)
    if found.record_cid != told["record_cid"]:
        fresh = {"state": Objection.State.OPEN, "answer": "", "answered_by": None, "answered_at": None}
        found, _ = Objection.objects.update_or_create(key=record.uri, defaults=told | fresh)
    return found


def _tell(found: Objection, now: datetime) -> None:
    name = f"objection:{found.pk}:{found.state}:{now.timestamp():.6f}"
    put("objection", name, {"key": found.key}, now)


def _checked(text: str, what: str) -> str:
    said = text.replace("\r\n", "\n").replace("\x00", "").strip()
    if not said:
        raise ObjectionProblem(422, f"{what} needs a text.")
    if len(said) > LONGEST:
        raise ObjectionProblem(422, f"{what} may have {LONGEST:,} characters at most; this one has {len(said):,}.")
    return said
