"""Every page that triage/urls.py names, found from there: one that is added is walked without being listed here."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.test import Client
from django.urls import URLPattern, reverse

from tests.ingest.stream.frames import MARA, REPO
from tests.triage.worlds.acting_site import NOON, ActingSite
from tests.triage.worlds.lane_site import MORE, NEXT
from triage.access.sign_in import issue_link
from triage.access.tokens import make_link
from triage.models import Action, Maintainer, Person
from triage.urls import urlpatterns

BEN = "did:plc:" + "3" * 24
SIGNED_OUT = ("sign_in", "sign_in_link", "demo_sign_in")  # walked by whoever is not signed in
# For programs, and not on every site.
DOCUMENTS = ("feed", "briefing_feed", "oauth_metadata", "oauth_jwks", "did_document")
FRAMELESS = ("offline",)  # a browser shows it while the site cannot be reached: it has no menu
WHOLE = b"<!doctype html>"


def lane_pages(site: ActingSite, admin: Client) -> list[str]:
    """Every page of the site of `lane_site`, after `something_of_everything`."""
    key = Action.objects.get(kind="outcome").key
    return pages_of(Known(MORE, NEXT, MARA, REPO, key, site.now), admin)


def something_of_everything(site: ActingSite) -> Client:
    """An admin of the site, who approved something, marked it bad, closed a lane and was told an objection."""
    ben = site.maintainer(BEN, "ben.example")
    Maintainer.objects.create(person=Person.objects.get(did=BEN), role="admin")
    ben.post("/act", site.form(uri=NEXT))
    site.after(11)
    site.work()
    site.merge(NEXT)
    ben.post("/act", site.form(kind="outcome", uri=NEXT, version=1, outcome="reverted", note="It broke the build."))
    ben.post("/lane/close", {"repo_key": REPO, "author": MARA, "because": "it let a bad one in"})
    ben.post(f"/c/{MARA}/objection", {"text": "I did not send the second round.", "pull": MORE})
    site.after(11)
    return ben


@dataclass(frozen=True)
class Known:
    """What the addresses of pages are made of: `done` is a pull request on which somebody acted, `key` that action."""

    uri: str
    done: str
    did: str
    repo_key: str
    key: str = ""
    now: datetime = NOON


def pages_of(known: Known, admin: Client) -> list[str]:
    """The address of every whole page that the admin sees; a name that nothing opens fails in words.

    What only takes a POST, leads elsewhere or answers with a part of a page or a file is none.
    """
    found = []
    for pattern in urlpatterns:
        for address in _addresses(known, pattern):
            answer = admin.get(address)
            assert answer.status_code in (200, 302, 405), f"GET {address} is {answer.status_code}: {HOW}"
            body = b"" if answer.streaming or answer.status_code != 200 else answer.content
            if body.lstrip().lower().startswith(WHOLE):
                found.append(address)
    return found


def signed_out_pages(site: ActingSite) -> list[str]:
    """What somebody sees before they signed in, and where there is nothing."""
    token = issue_link(Person.objects.get(did=BEN), now=site.now)
    return [
        reverse("sign_in"),
        reverse("sign_in_link", args=[token]),
        "/sign-in/not-a-link",
        "/nothing-is-here",
        "/c/no",
    ]


HOW = "say in tests/triage/every_page.py which arguments and which query show it"


def _addresses(known: Known, pattern: URLPattern) -> Iterator[str]:
    """The page of that name with arguments that exist, and its states that a query restores."""
    name = str(pattern.name)
    if name in (*SIGNED_OUT, *DOCUMENTS, *FRAMELESS, "own_decision") or (name == "incident" and not known.key):
        return  # own_decision is its author's
    given = _arguments(known, name)
    missing = pattern.pattern.converters.keys() - given.keys()
    assert not missing, f"{name} takes {', '.join(sorted(missing))}: {HOW}"
    address = reverse(name, kwargs={key: given[key] for key in pattern.pattern.converters})
    queries = {
        "queue": ("", "?bucket=fast_lane", "?bucket=normal_queue", "?q=nothing-like-it", f"?open={quote(known.uri)}"),
        "repository_settings": (f"?repository={quote(known.repo_key)}",),
    }
    yield from (address + query for query in queries.get(name, ("",)))


def _arguments(known: Known, name: str) -> dict[str, Any]:
    given: dict[str, Any] = {"uri": known.done if name == "history" else known.uri, "did": known.did, "number": 1}
    given["key"] = known.key
    if name in ("data_by_link", "decision_by_link"):
        about = known.uri if name == "decision_by_link" else ""
        given["token"] = make_link(Person.objects.get(did=BEN), known.did, known.repo_key, about, known.now)
    return given
