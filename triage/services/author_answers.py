"""Requests of maintainers to a pull request's author, and the author's answers.

An answer is taken each time that somebody asked, and it is the maintainers' turn at once. A text can be undone for ten
seconds and reaches its author afterwards, so an answer is about what took effect before it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import Subject
from triage.access.sign_in import person_for
from triage.models import Action
from triage.models.accounts import is_any
from triage.services.actions import NOTE_LENGTH, TO_AUTHOR, Wanted, save_action, versions

ASKED = """
select 1 from triage_action
where pull_uri > %s and pull_uri < %s and kind in ('comment', 'request_changes') and undone_at is null limit 1
"""
Asked = Mapping[str, tuple[Action, ...]]


class AnswerProblem(Exception):
    """An answer that cannot be taken: an HTTP status and one sentence with the reason; nothing was saved."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def exchange(uri: str, now: datetime) -> Any:
    """Return what maintainers wrote to the author of a pull request, and the answers, newest first, as a query set.

    What can still be undone is left out, and what the author wrote as a maintainer.
    """
    return _exchanges(Q(pull_uri=uri), _author_of(uri), now).order_by("-pk")


def find_waiting(did: str, snapshot: Snapshot, now: datetime) -> Asked:
    """Return what waits for this author's answer, newest first, by the at-uri of their open pull requests.

    A new round ends it, a word of theirs on the forge, an answer here, and whoever takes a request back.
    """
    own = (f"at://{did}/", f"at://{did}0")  # "0" comes after "/"
    if not is_any(ASKED, *own):
        return {}
    said: dict[str, list[Action]] = {}
    for action in _exchanges(Q(pull_uri__gt=own[0], pull_uri__lt=own[1]), did, now, with_releases=True).order_by("pk"):
        said.setdefault(action.pull_uri, []).append(action)
    waiting = {uri: asked for uri, actions in said.items() if (asked := _unanswered(actions))}
    subjects = read.subjects(snapshot, waiting) if waiting else {}
    still = {uri: _of_round(snapshot, subjects[uri], asked) for uri, asked in waiting.items() if uri in subjects}
    return {uri: asked for uri, asked in still.items() if asked}


def answer_maintainers(did: str, uri: str, text: str, by_link: bool, snapshot: Snapshot, now: datetime) -> Action:
    """Save an author's answer to what waits for one; raise AnswerProblem where nothing waits, or for an unusable text.

    The caller checks who speaks. Where they have no account yet, as by a link, there is one afterwards, without a role.
    """
    text = text.strip()
    if not text:
        raise AnswerProblem(422, "Write something first.")
    if len(text) > NOTE_LENGTH:
        raise AnswerProblem(422, f"An answer may have {NOTE_LENGTH:,} characters; this one has {len(text):,}.")
    with transaction.atomic():
        if uri not in find_waiting(did, snapshot, now):
            raise AnswerProblem(409, "Nothing here waits for your answer any more.")
        subject = read.decided_subjects(snapshot, [uri])[uri]
        wanted = Wanted(Action.Kind.ANSWER, uri, subject.seen, versions([uri])[uri], note=text)
        return save_action(person_for(did, snapshot), subject, wanted, now, effective_at=now, by_link=by_link)


def _author_of(uri: str) -> str:
    return uri.removeprefix("at://").partition("/")[0]


def _exchanges(where: Q, author: str, now: datetime, with_releases: bool = False) -> Any:
    asked = Q(kind__in=TO_AUTHOR, effective_at__lt=now) & ~Q(person__did=author)
    kinds = (Action.Kind.ANSWER, Action.Kind.RELEASE) if with_releases else (Action.Kind.ANSWER,)
    return Action.objects.filter(where & (asked | Q(kind__in=kinds)), undone_at=None)


def _unanswered(actions: list[Action]) -> tuple[Action, ...]:
    """Return the texts that nobody answered or took back, newest first; pure."""
    waiting: list[Action] = []
    for action in actions:
        if action.kind == Action.Kind.ANSWER:
            waiting = [text for text in waiting if text.effective_at >= action.made_at]
        elif action.kind == Action.Kind.RELEASE:
            waiting = [text for text in waiting if text.kind != Action.Kind.REQUEST_CHANGES]
        else:
            waiting.insert(0, action)
    return tuple(waiting)


def _of_round(snapshot: Snapshot, subject: Subject, asked: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return the texts about the newest round to which the author has not replied on the forge."""
    newest = (subject.seen.round, subject.seen.patch_id)
    current = [text for text in asked if subject.state == "open" and (text.round, text.patch_id) == newest]
    if not current:
        return ()
    own = [one.written_at for one in read.comments(snapshot, subject.uri) if one.author.did == subject.author.did]
    replied_at = max(own, default=datetime.min).replace(tzinfo=UTC)
    return tuple(text for text in current if text.effective_at > replied_at)
