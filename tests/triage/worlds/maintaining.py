"""A maintainer of the site on which people act, signed in with an account of the real data server."""

import re
from html import unescape
from typing import Any

from django.test import Client

from tests.ingest.stream.frames import REPO
from tests.peers.network import Account
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.labelling import give_push
from triage.access.oauth.client import web_sender
from triage.models import Maintainer, Person
from triage.services.own_name import own_records


class Maintaining:
    """A maintainer who is signed in with their account, in one browser."""

    def __init__(self, oauth_site: Site, site: ActingSite, person: Account) -> None:
        self.oauth, self.site, self.account = oauth_site, site, person
        known, _ = Person.objects.get_or_create(did=person.did)
        Maintainer.objects.get_or_create(person=known, repo_key=REPO)
        self.browser: Client = oauth_site.browser()
        assert oauth_site.sign_in(self.browser, person)["Location"] == "/"

    def allow(self, act: str, scope: str | None = None) -> Any:
        """Go through the page that asks for one act, and say yes; `scope`: to this alone."""
        answer = self.browser.post("/oauth/grant", {"act": act, "next": f"/pull/{OFFERED}"})
        found = re.search(r'href="([^"]+)">Continue to', answer.content.decode())
        assert found, answer.content.decode()
        visit = self.oauth.visit(unescape(found[1]), self.account)
        return self.browser.get("/oauth/callback", visit.consent(scope))

    def act(self, kind: str, note: str, address: str = "/act?send=1", version: int = 0) -> Any:
        return self.browser.post(address, self.site.form(kind, note=note, version=version, next=f"/pull/{OFFERED}"))

    def pane(self) -> str:
        return self.browser.get(f"/pull/{OFFERED}").content.decode()

    def send(self, seconds: float = 10) -> int:
        """Let time pass, and the worker send what is due."""
        self.site.after(seconds)
        return own_records.send_due(web_sender(), lambda: self.site.now)

    def may_push(self) -> None:
        """Make the knot say that they may push to the repository, and publish it."""
        give_push(self.site, self.account.did)

    def records(self, collection: str) -> list[dict[str, Any]]:
        """What the data server holds."""
        query = self.oauth.network.query
        return query("com.atproto.repo.listRecords", repo=self.account.did, collection=collection)["records"]
