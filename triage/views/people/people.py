"""People's roles, the log of changes, and API tokens.

Admins give roles. The log shows maintainers the changes in their own repositories. A person creates, sees and revokes
their own tokens; an admin of the site sees and revokes everybody's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from ingest.atproto.syntax import MalformedDid, parse_account, parse_did
from scoring.formatting import bad_interval, percent_in_full
from scoring.queries import read
from triage.access.permissions import LastAdmin, Role, Roles, require, require_reader, roles_of, set_role
from triage.access.requests import Request
from triage.access.sign_in import person_for, viewing
from triage.access.tokens import SCOPES, create_token, revoke_token
from triage.forms.settings import change_words
from triage.models import ApiToken, Change, Maintainer, Person, RoleRequest
from triage.services import role_requests

CHANGES_SHOWN = 50  # on one page
ROLES_SHOWN = 500
SITE = "the whole site"
TAKEN = "none"  # form value for taking a role away
WORDS: Mapping[str, str] = {
    "action.approve": "Approved",
    "action.pull_for_review": "Assigned to themselves",
    "action.release": "Released",
    "action.outcome": "Saved an outcome",
    "action.note": "Added a note",
    "action.comment": "Commented",
    "action.request_changes": "Requested changes",
    "action.close": "Asked to close",
    "action.dismiss_finding": "Marked a finding as a false alarm",
    "action.restore_finding": "Marked a finding as a problem again",
    "action.confirm_merge": "Said that it was merged",
    "action.deny_merge": "Said that it was not merged",
    "action.answer": "Answered as its author",
    "action.undone": "Undid an action",
    "audit.answered": "Answered the audit",
    "incident.handled": "Handled an incident",
    "incident.reopened": "Opened an incident again",
    "lane.closed": "Closed the fast lane",
    "lane.opened": "Opened the fast lane again",
    "lane.estimated": "Opened the fast lane on an estimate",
    "lane.estimate_ended": "Ended an estimated fast lane",
    "leaderboard.left_out": "Left out of the leaderboard",
    "leaderboard.listed": "Listed on the leaderboard again",
    "link.made": "Created a private link",
    "link.revoked": "Revoked a private link",
    "objection.made": "Objected",
    "objection.accepted": "Accepted an objection",
    "objection.rejected": "Rejected an objection",
    "pull.merged": "Merged on the knot",
    "pull.not_merged": "Tried to merge",
    "record.asked": "Asked for a record in their own name",
    "record.deletion_asked": "Asked to take back a record of their own",
    "record.withdrawn": "Withdrew a record of their own",
    "publishing.connected": "Connected the account as which this site publishes",
    "publishing.retracted": "Took back everything that this site publishes",
    "record.written": "Wrote a record in their own name",
    "record.deleted": "Took back a record of their own",
    "record.refused": "Was refused a record by their own server",
    "repository.watched": "Started to watch a repository",
    "role.asked": "Asked to maintain a repository",
    "role.changed": "Changed a role",
    "role.declined": "Declined a request to maintain a repository",
    "row.shown": "Showed a snoozed row again",
    "row.snoozed": "Snoozed a row",
    "settings.changed": "Changed settings",
    "token.made": "Created a token",
    "token.revoked": "Revoked a token",
}
NAMES: Mapping[str, str] = {
    "would_merge": "would have merged it as sent",
    "since": "now",
    "kind": "it was",
    "purpose": "for",
    "source": "from",
    "let_through": "would have let through",
    "bad": "bad ones of these",
    "cases": "settled pull requests",
    "bad_low": "true share of bad ones, in percent",
    "model": "counted with model",
}
VALUES: Mapping[object, str] = {True: "yes", False: "no", None: "none"}
# Our own words that are stored as codes, by the name of the detail: elsewhere the same word may be a person's text.
CODES: Mapping[str, Mapping[object, str]] = {
    "kind": {
        "approve": "an approval",
        "pull_for_review": "an assignment",
        "release": "a release",
        "outcome": "an outcome",
        "note": "a note",
        "comment": "a comment",
        "request_changes": "a request for changes",
        "close": "a request to close",
        "dismiss_finding": "a false alarm",
        "restore_finding": "a problem noted again",
        "confirm_merge": "that it was merged",
        "deny_merge": "that it was not merged",
        "answer": "its author's answer",
    },
    "outcome": {"needed_fix": "needed a fix"},
    "purpose": {"data": "everything stored", "decision": "one decision"},
    "source": {
        "link": "a private link",
        "self": "the contributor, signed in",
        "record": "a record on the network",
        "maintainer": "a maintainer",
        "own": "the past of this site",
        "starter": "the past of the starter model's projects",
    },
}
SPEAKERS: Mapping[object, str] = {
    "link": "the contributor, by a private link",
    "record": "the contributor, by a record on the network",
}
# Identifiers that mean nothing to a reader, and the end of an interval that is shown with its other end.
HIDDEN = frozenset({"key", "batch", "pull_uri", "bad_high"})
SHOWN = 200
MOST = 50  # tokens of one person at once
LONGEST_NAME = 100
EVERYTHING = "all repositories"
MEANINGS = {
    "read": "read: scores, the inbox and why, as you see them",
    "review": "review: have the content of a change read, which may cost money",
}


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One line of the log: who, what, where, subject, and the values before and after."""

    change: Change
    what: str
    where: str
    subject: str
    told: tuple[str, ...]
    nobody: str  # the words for who did it where no account is named


@require_safe
@never_cache
def people(request: Request) -> HttpResponse:
    """Show the roles in repositories that the viewer administers, and the form that gives and takes them."""
    return _people(request)


def _people(request: Request, problem: str = "") -> HttpResponse:
    roles = _require_role(request, Role.ADMIN)
    names = _names(request)
    roles_given = Maintainer.objects.select_related("person").order_by("repo_key", "person__did")
    administered = roles.keys(Role.ADMIN)
    shown = list((roles_given if "" in administered else roles_given.filter(repo_key__in=administered))[:ROLES_SHOWN])
    places = [("", SITE), *sorted(names.items(), key=lambda pair: pair[1])]
    context = {
        "held": [(row, _where(row.repo_key, names)) for row in shown],
        "places": [(key, name) for key, name in places if roles.role(key) >= Role.ADMIN],
        "roles": Maintainer.Role.values,
        "requests": [(one, _where(one.repo_key, names)) for one in role_requests.open_requests(roles)],
        "problem": problem,
        "sent": {"did": "", "repo_key": "", "role": "", **(request.POST.dict() if problem else {})},
    }
    return render(request, "people/people.html", context, status=422 if problem else 200)


@require_POST
@never_cache
def change_role(request: Request) -> HttpResponse:
    """Give or take a role: `did`, `repo_key` ("" for the site), `role` or "none"; only by an admin, and logged."""
    repo_key, role = request.POST.get("repo_key", ""), request.POST.get("role", "")
    by = require(request, repo_key, Role.ADMIN)
    if repo_key and repo_key not in _names(request):
        return _people(request, "That repository is not watched here.")
    if role not in (*Maintainer.Role.values, TAKEN):
        return _people(request, "This role does not exist.")
    try:
        did = (parse_did if role == TAKEN else parse_account)(request.POST.get("did", "").strip())
        person = Person.objects.filter(did=did).first() if role == TAKEN else person_for(did, request.snapshot)
        changed = person is not None and set_role(by, person, repo_key, None if role == TAKEN else role, timezone.now())
    except (MalformedDid, LastAdmin) as problem:
        return _people(request, str(problem))
    messages.info(request, "Saved." if changed else "Nothing changed: the person already has this role.")
    return redirect("people")


@require_POST
@never_cache
def answer_request(request: Request) -> HttpResponse:
    """Accept or decline a request to maintain a repository: `number`, `answer` accept or decline; by an admin there."""
    by, sent, number = require_reader(request), request.POST.get("answer", ""), request.POST.get("number", "")
    _require_role(request, Role.ADMIN)
    asked = get_object_or_404(RoleRequest, pk=number if number.isascii() and number.isdecimal() else 0)
    require(request, str(asked.repo_key), Role.ADMIN)
    if sent not in ("accept", "decline"):
        return _people(request, "Accept or decline the request.")
    try:
        is_first = role_requests.answer(by, asked, sent == "accept", request.snapshot, timezone.now())
    except role_requests.NoPushRight as problem:
        return _people(request, str(problem))
    messages.info(request, "Saved." if is_first else "Nothing changed: this request was answered before.")
    return redirect("people")


@require_safe
@never_cache
def changes(request: Request) -> HttpResponse:
    """List changes, newest first: all for maintainers of the site, else those in the viewer's repositories."""
    roles = _require_role(request, Role.MAINTAINER)
    maintained = roles.keys(Role.MAINTAINER)
    entries = Change.objects.select_related("person").order_by("-made_at", "-pk")
    entries = entries if "" in maintained else entries.filter(Q(repo_key__in=maintained) & ~Q(repo_key=""))
    page = Paginator(entries, CHANGES_SHOWN).get_page(request.GET.get("page"))
    return render(request, "people/changes.html", {"page": page, "lines": _lines(request, page.object_list)})


def _require_role(request: Request, least: Role) -> Roles:
    """Return the viewer's roles, which must include at least this one somewhere."""
    roles = roles_of(require_reader(request))
    if roles.highest() < least:
        raise PermissionDenied(f"This needs the role {least.name.lower()}.")
    return roles


def _names(request: Request) -> dict[str, str]:
    return (
        {repository.key: repository.name for repository in read.watched_repositories(request.snapshot)}
        if request.snapshot
        else {}
    )


def _where(repo_key: str, names: dict[str, str]) -> str:
    return names.get(repo_key, repo_key) if repo_key else SITE


def _lines(request: Request, entries: Sequence[Any]) -> list[ChangeView]:
    names, uris = _names(request), [change.subject for change in entries if change.subject.startswith("at://")]
    titles = (
        {uri: subject.title for uri, subject in read.subjects(request.snapshot, uris).items()}
        if request.snapshot
        else {}
    )
    return [
        ChangeView(
            change,
            what_words(change.what),
            SITE if is_everywhere(change.what, change.details) else _where(change.repo_key, names),
            titles.get(change.subject) or change.subject,
            told_details(change.details),
            nobody_words(change.details),
        )
        for change in entries
    ]


def what_words(what: str) -> str:
    """Return the action in words; an unknown kind as stored."""
    return WORDS.get(what, what)


def nobody_words(details: Mapping[str, Any]) -> str:
    """Say who made a change without an account: a contributor by link or record, else unknown."""
    return SPEAKERS.get(details.get("source"), "the operator, or an erased account")


def told_details(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values before and after, one clause each."""
    changes = details.get("changes")
    if isinstance(changes, dict):
        return change_words(changes)
    if "bad_high" in details:
        interval = bad_interval(details["bad_low"], details["bad_high"])
        details = {**details, "bad_low": interval, "threshold": percent_in_full(details["threshold"])}
    shown = ((name, value) for name, value in details.items() if name not in HIDDEN and value != "")
    # A snooze's stored words already begin with "until".
    return tuple(
        str(value) if str(value).startswith(f"{name} ") else f"{NAMES.get(name, name)}: {_value(name, value)}"
        for name, value in shown
    )


def is_everywhere(what: str, details: Mapping[str, Any]) -> bool:
    """Return whether a change covers all repositories: a link to everything stored does."""
    return what.startswith("link.") and details.get("purpose") == "data"


def _value(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,g}"
    is_word = value is None or isinstance(value, bool | str)  # 1 is not True
    return {**VALUES, **CODES.get(name, {})}.get(value, str(value)) if is_word else str(value)


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token for display: its person ("" for the operator's), and the name of the repository that it reads."""

    token: ApiToken
    person: str
    scopes: str
    where: str


@require_safe
@never_cache
def tokens(request: Request) -> HttpResponse:
    """Show the tokens that the viewer may revoke, and the form that creates one."""
    return _page(request, require_reader(request))


@require_POST
@never_cache
def make_token(request: Request) -> HttpResponse:
    """Create a token: `name`, `scopes`, `repo_key` ("" for all); its secret is only in this answer."""
    person, roles = require_reader(request), viewing(request)
    name, scopes = request.POST.get("name", "").strip(), request.POST.getlist("scopes")
    repo_key = request.POST.get("repo_key", "")
    if problem := _problem(person, name, scopes) or _refusal(scopes, repo_key, roles, _places(request, roles)):
        return _page(request, person, problem=problem)
    return _page(request, person, secret=create_token(name, scopes, timezone.now(), person, repo_key))


@require_POST
@never_cache
def end_token(request: Request, number: int) -> HttpResponse:
    """Revoke a token of one's own, or as an admin of the site anybody's; others are not found."""
    person = require_reader(request)
    own_only = {} if _sees_all(viewing(request)) else {"person": person}
    revoke_token(get_object_or_404(ApiToken, pk=number, **own_only), person, timezone.now())
    messages.info(request, "The token was revoked. It no longer works.")
    return redirect("tokens")


def _sees_all(roles: Roles) -> bool:
    return roles.role("") >= Role.ADMIN


def _problem(person: Person, name: str, scopes: list[str]) -> str:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return f"A token needs a name of 1 to {LONGEST_NAME} characters, which says what it is for."
    if not scopes or not set(scopes) <= set(SCOPES):
        return "Say what the token may do."
    if ApiToken.objects.filter(person=person, revoked_at=None).count() >= MOST:
        return f"You have {MOST} tokens: revoke one first."
    return ""


def _refusal(scopes: list[str], repo_key: str, roles: Roles, places: dict[str, str]) -> str:
    """Return why this person may not create such a token; "" where they may."""
    if "review" in scopes and roles.highest() < Role.MAINTAINER:
        return "Only a maintainer's token may have changes reviewed."
    return "" if not repo_key or repo_key in places else "You have no role in that repository."


def _places(request: Request, roles: Roles) -> dict[str, str]:
    """Return the repositories in which the viewer has a role."""
    all_repositories = _names(request)
    return (
        all_repositories
        if "" in roles.held
        else {key: name for key, name in all_repositories.items() if key in roles.held}
    )


def token_places(request: Request) -> list[tuple[str, str]]:
    """Return what a token of the viewer's may read: key and name, everything first."""
    places = _places(request, viewing(request))
    return [("", EVERYTHING), *sorted(places.items(), key=lambda pair: pair[1])]


def _page(request: Request, person: Person, problem: str = "", secret: str = "") -> HttpResponse:
    roles, names = viewing(request), _names(request)
    all_tokens = ApiToken.objects.select_related("person").order_by("-made_at", "-pk")
    visible_tokens = all_tokens if _sees_all(roles) else all_tokens.filter(person=person)
    context = {
        "tokens": [_token_view(token, names) for token in visible_tokens[:SHOWN]],
        "everybodys": _sees_all(roles),
        "scopes": [(name, MEANINGS[name]) for name in SCOPES if name == "read" or roles.highest() >= Role.MAINTAINER],
        "places": token_places(request),
        "problem": problem,
        "secret": secret,
        "sent_name": request.POST.get("name", ""),
        "sent": request.POST if problem else {},
    }
    return render(request, "people/tokens.html", context, status=422 if problem else 200)


def _token_view(token: Any, names: dict[str, str]) -> TokenView:
    where = names.get(token.repo_key, token.repo_key) if token.repo_key else EVERYTHING
    return TokenView(token, str(token.person or ""), ", ".join(token.scopes), where)
