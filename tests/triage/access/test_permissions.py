"""Every URL and every operation, tried as everybody. A new one without a line in TABLE fails, and says which to add."""

import gzip
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import PREFIX, create_token, make_link
from triage.models import ContributorLink, Maintainer, Objection, Person
from triage.services.objections import object_to

pytestmark = pytest.mark.django_db
HERE, ELSEWHERE = REPO, CABIN
JOB = f"{int(time.time())}-" + "0" * 32
KINDS = ("anonymous", "link", "nobody", "viewer", "elsewhere", "maintainer", "admin")
# What each of the seven is answered, in that order: a status, or sign for being sent to the sign-in page. A line that
# ends in `link=` is sent with the link's token by its holder; {data} and {decision} stand for those of mara's links.
# anonymous: no session. link: the holder of a contributor's link. nobody: signed in, invited by nobody. viewer: reads.
# elsewhere: maintainer of another repository. maintainer: of this one. admin: of this one.
TABLE: dict[str, tuple[str, str]] = {
    # name, or method and path of an operation: what is asked; answers
    "queue": ("GET /", "sign sign 302 200 200 200 200"),
    "pull": (f"GET /pull/{OFFERED}", "sign sign 403 200 200 200 200"),
    "leaderboard": ("GET /leaderboard", "sign sign 403 200 200 200 200"),
    "dashboard": ("GET /dashboard", "sign sign 403 200 200 200 200"),
    "contributor": (f"GET /c/{MARA}", "sign sign 403 200 200 200 200"),
    "me": ("GET /me", "sign sign 200 200 200 200 200"),
    "own_decision": (f"GET /me/pull/{OFFERED}", "302 302 302 302 302 302 302"),  # mara's: all others go to `find`
    "ask_to_maintain": (f"POST /me/maintain repo_key={HERE}", "sign sign 403 403 403 403 403"),  # none may push
    "own_data": (f"GET /c/{MARA}/data", "sign sign 403 403 403 200 200"),
    "data_by_link": (f"GET /c/{MARA}/data/{{data}}", "403 200 403 403 403 403 403"),
    "decision_by_link": (f"GET /c/{MARA}/decision/{{decision}}", "403 200 403 403 403 403 403"),
    "send_answer": (f"POST /c/{MARA}/answer pull={OFFERED}&text=Yes&link=", "sign 409 403 403 403 403 403"),  # unasked
    "send_objection": (f"POST /c/{MARA}/objection text=No&link=", "sign 302 403 403 403 302 302"),
    "send_wish": (
        f"POST /c/{MARA}/leaderboard out=yes&link=",
        "sign 302 403 403 403 403 403",
    ),  # of maintainers the site's
    "rights": (f"GET /c/{MARA}/rights", "sign sign 403 403 403 200 200"),
    "hand_link": (f"POST /c/{MARA}/links pull={OFFERED}", "sign sign 403 403 403 200 200"),
    "take_link": (f"POST /c/{MARA}/links/1/revoke", "sign sign 403 403 403 302 302"),
    "objections": ("GET /objections", "sign sign 403 403 200 200 200"),
    "answer_objection": ("POST /objections/answer key=open&state=rejected&answer=So", "sign sign 403 403 403 302 302"),
    "people": ("GET /people", "sign sign 403 403 403 403 200"),
    "answer_request": ("POST /people/request number=1&answer=accept", "sign sign 403 403 403 403 404"),
    "change_role": (f"POST /people/role repo_key={HERE}&did={MARA}&role=viewer", "sign sign 403 403 403 403 302"),
    "publishing": ("GET /publishing", "sign sign 403 403 403 403 403"),  # for admins of the whole site
    "connect_service": ("POST /publishing/connect handle=made-up", "sign sign 403 403 403 403 403"),
    "take_back_records": ("POST /publishing/take-back", "sign sign 403 403 403 403 403"),
    "changes": ("GET /changes", "sign sign 403 403 200 200 200"),
    "tokens": ("GET /tokens", "sign sign 403 200 200 200 200"),
    "make_token": ("POST /tokens/make name=So&scopes=read", "sign sign 403 200 200 200 200"),
    "overlay": ("GET /overlay", "sign sign 403 200 200 200 200"),
    "overlay_file": ("GET /overlay/sunstead-overlay.zip", "sign sign 403 200 200 200 200"),
    "revoke_token": ("POST /tokens/1/revoke", "sign sign 403 404 404 404 404"),  # there is none
    "history": (f"GET /history/{OFFERED}", "sign sign 403 200 200 200 200"),
    "diff": (f"GET /diff/{OFFERED}", "sign sign 403 200 200 200 200"),
    "raw_patch": (f"GET /patch/{OFFERED}", "sign sign 403 404 404 404 404"),  # none was fetched
    "GET /approved.json": ("GET /approved.json", "401 401 403 200 200 200 200"),
    "act": (f"POST /act uri={OFFERED}&kind=approve&round=0&version=0", "sign sign 403 403 403 409 409"),
    "undo": ("POST /act/undo key=made-up", "sign sign 403 400 400 400 400"),
    "bulk_approve": (f"POST /act/bulk pull={OFFERED}||0||0", "sign sign 403 403 403 409 409"),
    "look": (f"POST /act/look uri={OFFERED}", "sign sign 403 403 403 302 302"),
    "settings_list": ("GET /settings", "sign sign 403 200 200 200 200"),
    "repository_settings": (f"POST /settings/repository repository={HERE}", "sign sign 403 403 403 409 409"),
    "switch_shadow": (f"POST /settings/shadow repository={HERE}&shadow=off&version=0", "sign sign 403 403 403 302 302"),
    "answer_audit": (f"POST /audit uri={OFFERED}&answer=yes&because=So", "401 401 403 403 403 400 400"),
    "incident": ("GET /incident/made-up", "sign sign 403 404 404 404 404"),
    "incidents": ("GET /incidents", "sign sign 403 403 200 200 200"),
    "handle_incident": ("POST /incidents/handle key=made-up", "sign sign 403 404 404 404 404"),
    "settled": ("GET /settled", "sign sign 403 200 200 200 200"),
    "audits": ("GET /audits", "sign sign 403 403 200 200 200"),
    "snoozed": ("GET /snoozed", "sign sign 403 200 200 200 200"),
    "snooze": (f"POST /snooze uri={OFFERED}&until=week&round=0", "sign sign 403 403 403 409 409"),
    "quiet": ("GET /quiet", "sign sign 403 403 200 200 200"),
    "snooze_quiet": (f"POST /quiet/snooze pull={OFFERED}||0||0", "sign sign 403 403 403 409 409"),
    "save_filter": ("POST /filters/save name=x", "sign sign 403 400 400 400 400"),
    "drop_filter": ("POST /filters/delete name=x", "sign sign 403 302 302 302 302"),
    "show_now": ("POST /snooze/end key=made-up", "sign sign 403 404 404 404 404"),
    "answer_outcomes": ("POST /outcomes answer=later", "sign sign 403 403 302 302 302"),
    "lane": ("GET /lane", "sign sign 403 200 200 200 200"),
    "open_estimate": (f"POST /lane/estimate repository={HERE}&choice=open", "sign sign 403 403 403 409 409"),
    "time_reading": ("POST /lane/time on=1", "sign sign 403 403 302 302 302"),
    "end_estimate": ("POST /lane/estimate/end key=made-up&because=So", "401 401 403 404 404 404 404"),
    "close_lane": (f"POST /lane/close repo_key={HERE}&because=So", "401 401 403 403 403 302 302"),
    "open_lane": ("POST /lane/open key=made-up&because=So", "401 401 403 404 404 404 404"),
    "live": ("GET /live", "sign sign 403 200 200 200 200"),
    "vouches": ("GET /vouches", "sign sign 403 403 200 200 200"),
    "redteam": ("GET /redteam", "sign sign 403 403 200 200 200"),
    "backtest": ("GET /backtest", "sign sign 403 403 200 200 200"),
    "begin": ("GET /begin", "200 200 200 200 200 200 200"),  # the site has no admin yet
    "use_code": ("POST /begin/code code=made-up", "403 403 403 403 403 403 403"),
    "setup": ("GET /setup", "sign sign 403 403 403 403 403"),  # for maintainers of the whole site
    "find_repositories": ("POST /setup/find who=ana.example.com", "sign sign 403 403 403 403 403"),
    "setup_looking": ("GET /setup/looking", "sign sign 403 403 403 403 403"),
    "setup_progress": ("GET /setup/progress", "sign sign 403 403 403 403 403"),
    "begin_watching": ("POST /setup/begin record=made-up", "sign sign 403 403 403 403 403"),
    "about": ("GET /about", "200 200 200 200 200 200 200"),
    "find": ("GET /find?q=made-up", "200 200 200 200 200 200 200"),  # the same words for everybody
    "verify": ("POST /verify uri=made-up", "200 200 200 200 200 200 200"),  # the same, and nothing changes
    "api_reference": ("GET /api", "200 200 200 200 200 200 200"),  # as the document: no person, no figure
    "docs": ("GET /docs", "302 302 302 302 302 302 302"),  # to the API page
    "feed": ("GET /feed/made-up.atom", "404 404 404 404 404 404 404"),  # a token opens it, whoever is signed in
    "briefing": ("GET /briefing", "sign sign 403 403 200 200 200"),
    "GET /briefing": ("GET /briefing", "sign sign 403 403 200 200 200"),  # a page for whoever does not ask for JSON
    "briefing_feed": ("GET /feed/made-up/briefing.rss", "404 404 404 404 404 404 404"),  # as the other feed
    "set_password": ("GET /sign-in/password", "sign sign 200 200 200 200 200"),
    "sign_in": ("GET /sign-in", "200 200 302 302 302 302 302"),
    "sign_in_link": ("POST /sign-in/made-up", "403 403 403 403 403 403 403"),
    "demo_sign_in": ("POST /sign-in/demo", "404 404 404 404 404 404 404"),
    "oauth_sessions": ("GET /signed-in", "sign sign 200 200 200 200 200"),  # their own
    "oauth_start": ("POST /oauth/start handle=ana.example.com", "404 404 404 404 404 404 404"),  # not at this address
    "oauth_callback": ("GET /oauth/callback?state=made-up", "302 302 302 302 302 302 302"),  # to the sign-in page
    "oauth_end": ("POST /oauth/end session=made-up", "sign sign 404 404 404 404 404"),
    "oauth_metadata": ("GET /oauth/client-metadata.json", "404 404 404 404 404 404 404"),  # without PUBLIC_ORIGIN
    "oauth_jwks": ("GET /oauth/jwks.json", "404 404 404 404 404 404 404"),
    "did_document": ("GET /.well-known/did.json", "404 404 404 404 404 404 404"),  # where no labels are served
    "oauth_grant": ("GET /oauth/grant?act=comment", "sign sign 403 sign sign sign sign"),  # with their account
    "vouch": (f"POST /c/{MARA}/vouch", "sign sign 403 403 302 302 302"),  # their own record
    "merge": (f"POST /act/merge uri={OFFERED}", "sign sign 403 403 403 400 400"),
    "label_lane": (f"POST /act/label uri={OFFERED}", "sign sign 403 403 403 400 400"),
    "take_back_sent": ("POST /act/take-back key=made-up", "sign sign 403 400 400 400 400"),
    "send_kept": ("POST /act/send key=made-up", "sign sign 403 400 400 400 400"),  # they wrote nothing
    "notifications": ("GET /notifications", "sign sign 403 403 200 200 200"),
    "subscribe_browser": ("POST /notifications/subscribe endpoint=made-up", "sign sign 403 403 404 404 404"),
    "end_browser": ("POST /notifications/1/end", "sign sign 403 403 404 404 404"),  # there is none
    "manifest": ("GET /manifest.webmanifest", "200 200 200 200 200 200 200"),  # these name nobody
    "service_worker": ("GET /service-worker.js", "200 200 200 200 200 200 200"),
    "offline": ("GET /offline", "200 200 200 200 200 200 200"),
    "sign_out": ("POST /sign-out", "302 302 302 302 302 302 302"),
    "GET /score/{did}": (f"GET /score/{MARA}", "401 401 403 200 200 200 200"),
    "POST /score": ("POST /score {}", "401 401 403 422 422 422 422"),
    "GET /pull": ("GET /pull?uri=at://made/up", "401 401 403 404 404 404 404"),
    "GET /inbox": ("GET /inbox", "401 401 403 200 200 200 200"),
    "POST /pulls": ("POST /pulls {}", "401 401 403 422 422 422 422"),
    "GET /queue": ("GET /queue", "401 401 403 200 200 200 200"),
    "GET /leaderboard": (
        "GET /leaderboard",
        "sign sign 403 200 200 200 200",
    ),  # a page for whoever does not ask for JSON
    "GET /thresholds": ("GET /thresholds?query=maximum", "401 401 403 403 422 422 422"),
    "GET /digest": ("GET /digest", "401 401 403 200 200 200 200"),
    "GET /health": ("GET /health", "503 503 503 503 503 503 503"),  # no worker runs; says nothing of anybody
    "GET /trust/{did}": (f"GET /trust/{MARA}", "401 401 403 200 200 200 200"),
    "ops_metrics": ("GET /ops/metrics", "401 401 403 200 200 200 200"),
    "GET /lanes": ("GET /lanes", "401 401 403 200 200 200 200"),
    "GET /metrics": ("GET /metrics", "401 401 403 200 200 200 200"),
    "POST /review/pr": ("POST /review/pr {}", "401 401 401 401 422 422 422"),
    "GET /review/pr/{job}": (f"GET /review/pr/{JOB}", "401 401 401 401 404 404 404"),
}
# Pages that show a secret, and to whom of the seven: a link, or a token once.
SHOWING = {
    "data_by_link": {"link"},
    "decision_by_link": {"link"},
    "hand_link": {"maintainer", "admin"},
    "make_token": {"viewer", "elsewhere", "maintainer", "admin"},
}
SECRET = re.compile(rf"(?:(?:data|decision)~|{PREFIX}|sign-in/)[\w-]{{43}}")
FREE = {"openapi-json", "api-root"}  # the API's own description names no person and no figure
ASKING = {
    "POST /score",
    "POST /pulls",
    "verify",
}  # a body too long for an address, a form that asks other servers; change nothing
CHANGING = [
    *(name for name, (line, _) in TABLE.items() if name not in ASKING and line.startswith(("POST ", "PUT ", "DELETE ")))
]


@dataclass(frozen=True, slots=True)
class Asked:
    """One line of the table, taken apart."""

    method: str
    path: str
    body: str

    @classmethod
    def of(cls, line: str) -> "Asked":
        method, path, *body = line.split(" ", 2)
        return cls(method, path, body[0] if body else "")


@pytest.fixture(autouse=True)
def kept(small: Path, settings: Settings) -> Iterator[dict[str, str]]:
    """The small world for readers only, mara's links by name, and an objection of hers that is open."""
    settings.REVIEW_WAIT_SECONDS = 0
    cache.clear()
    now = timezone.now()
    maker = Person.objects.create(did=SEED)
    data = make_link(maker, MARA, HERE, "", now)
    ContributorLink.objects.update(id=1)
    decision = make_link(maker, MARA, HERE, OFFERED, now)
    object_to(MARA, OFFERED, HERE, "I object.", "link", None, now)
    Objection.objects.update(key="open")
    yield {"data": data, "decision": decision}
    cache.clear()


def signed_in(client: Client, role: str | None, repo_key: str = HERE) -> Client:
    """The client as somebody with this role there; None: with none anywhere."""
    person = Person.objects.create(did=f"did:plc:{role}{repo_key[-4:]}".ljust(32, "a"))
    if role:
        Maintainer.objects.create(person=person, repo_key=repo_key, role=role)
    client.force_login(person)
    return client


def client_of(who: str, **how: Any) -> Client:
    """A browser of one of the seven."""
    client = Client(**how)
    match who:
        case "anonymous" | "link":
            return client
        case "nobody":
            return signed_in(client, None)
        case "elsewhere":
            return signed_in(client, "maintainer", ELSEWHERE)
        case _:
            return signed_in(client, who)


def send(client: Client, asked: Asked, links: Mapping[str, str]) -> Any:
    """Ask it; `links` are what the one who asks holds, and whoever holds none makes them up."""
    path = asked.path
    for name in ("data", "decision"):
        path = path.replace(f"{{{name}}}", links.get(name, f"{name}~made-up"))
    body = f"{asked.body}{links.get('data', '')}" if asked.body.endswith("link=") else asked.body
    kind = "application/json" if body.startswith("{") else "application/x-www-form-urlencoded"
    return client.generic(asked.method, path, body, content_type=kind if body else "text/plain")


def held_by(who: str, kept: Mapping[str, str]) -> Mapping[str, str]:
    """The links of one of the seven."""
    return kept if who == "link" else {}


@contextmanager
def undone(client: Client) -> Generator[None]:
    """What the client does inside is as if it never had."""
    cookies = deepcopy(client.cookies)
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    client.cookies = cookies
    cache.clear()  # else whoever tries one address after the other is told to wait


def outcome(answer: Any) -> str:
    """A status, or "sign" for being sent to the sign-in page."""
    is_sent = answer.status_code == 302 and answer["Location"].startswith("/sign-in?next=")
    return "sign" if is_sent else str(answer.status_code)


def pages(patterns: list[Any]) -> Iterator[str]:
    """The names of all addresses but the API's operations."""
    for one in patterns:
        if isinstance(one, URLResolver) and one.namespace is None:
            yield from pages(one.url_patterns)
        elif isinstance(one, URLPattern):
            yield one.name or str(one.pattern)


def operations() -> Iterator[str]:
    """Method and path of every operation that the API's description names."""
    from triage.api import api

    for path, methods in api.get_openapi_schema(path_prefix="/")["paths"].items():
        yield from (f"{method.upper()} {path}" for method in methods)


def test_every_address_and_operation_stands_in_the_table() -> None:
    known = [*pages(get_resolver(configured.ROOT_URLCONF).url_patterns), *operations()]
    missing = sorted(set(known) - TABLE.keys() - FREE)
    lines = [f'    "{name}": ("GET /…", "sign sign 200 200 200 200"),' for name in missing]
    assert not missing, "\n".join(["add to TABLE in tests/triage/access/test_permissions.py, as it should be:", *lines])
    assert TABLE.keys() - set(known) == set(), "these lines of TABLE ask for what is gone"


def test_nobody_gets_what_is_not_theirs_and_no_secret_is_packed(kept: dict[str, str]) -> None:
    clients = {who: client_of(who, headers={"Accept-Encoding": "gzip"}) for who in KINDS}
    for name, (line, answers) in TABLE.items():
        given, shown = {}, set()
        for who, client in clients.items():
            with undone(client):
                answer = send(client, Asked.of(line), held_by(who, kept))
            given[who] = outcome(answer)
            if shows_a_secret(answer):
                shown.add(who)
        assert given == dict(zip(KINDS, answers.split(), strict=True)), name
        assert shown == SHOWING.get(name, set()), name


def shows_a_secret(answer: Any) -> bool:
    """Whether one stands in it, which then is neither packed nor kept by any cache.

    Its length would tell the secret's letters to who can have the page repeat letters of theirs (BREACH).
    """
    body, is_packed = b"".join(answer), "Content-Encoding" in answer
    if not SECRET.search((gzip.decompress(body) if is_packed else body).decode(errors="replace")):
        return False
    assert not is_packed
    assert "no-store" in answer["Cache-Control"]
    return True


def test_what_changes_something_needs_the_pages_own_form_and_is_never_done_by_a_get() -> None:
    strict, maintainer = client_of("admin", enforce_csrf_checks=True), client_of("maintainer")
    for name in CHANGING:
        asked = Asked.of(TABLE[name][0])
        with undone(strict):
            assert send(strict, asked, {}).status_code == 403, name
        with undone(maintainer):
            assert maintainer.get(asked.path).status_code in (403, 404, 405), name


OWN = {
    "me",
    "own_decision",
    "set_password",
    "sign_in",
    "oauth_sessions",
    "oauth_end",
}  # these differ for whoever is signed in


def test_where_reading_is_public_nobody_reads_what_anonymous_visitors_read_and_does_no_more(settings: Settings) -> None:
    settings.PUBLIC_READ = True
    anonymous, nobody = client_of("anonymous"), client_of("nobody")
    for name in TABLE.keys() - OWN:
        given = []
        for client in (anonymous, nobody):
            with undone(client):
                given.append(outcome(send(client, Asked.of(TABLE[name][0]), {})))
        refused = {"sign": ("403",), "401": ("401", "403")}
        assert given[1] in refused.get(given[0], (given[0],)), (name, given)


def test_neither_a_public_site_nor_a_token_that_reads_changes_anything(settings: Settings) -> None:
    settings.PUBLIC_READ = True
    token = create_token("robot", ["read"], timezone.now())
    robot, anonymous = Client(headers={"Authorization": f"Bearer {token}"}), Client()
    for name in CHANGING:
        line, answers = TABLE[name]
        expected = answers.split()[0]
        with undone(anonymous):
            assert outcome(send(anonymous, Asked.of(line), {})) == expected, name
        with undone(robot):
            assert outcome(send(robot, Asked.of(line), {})) in (expected, "401"), name
