"""Anybody checks a published assessment: by the page without an account or a script, in plain words."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from ingest.atproto.record_proof import cid_text, encode
from ingest.records.assessment import assessment_key
from scoring.certificates.certificate import Certificate, write_certificate
from tests.ingest.atproto.signed import SignedAccount, SignedNetwork, Signer, link_of
from tests.ingest.stream.frames import MARA, PULL, pull_record, pull_uri
from tests.scoring.certificates.test_successors import MADE, certificate
from tests.triage.axe import violations
from tests.triage.conftest import OpenPage
from triage.services.publishing.verifying import Verification, Verifier
from triage.views import verify as page

pytestmark = pytest.mark.django_db
SITE = f"did:plc:{'s' * 24}"
OFFERED, COLLECTION = pull_uri(MARA, "offered"), "org.sunstead.assessment"
KEY = assessment_key(OFFERED)
URI = f"at://{SITE}/{COLLECTION}/{KEY}"
RECORD = pull_record()
CID = cid_text(link_of(encode(RECORD)))


class Site:
    """A site's repository with one assessment, the author's with the pull request, and this site's certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = SignedAccount(SITE, Signer("site"))
        self.mara = SignedAccount(MARA, Signer("mara"), {f"{PULL}/offered": RECORD})
        self.network = SignedNetwork({SITE: self.site, MARA: self.mara})
        self.publish()

    def publish(self, **changes: Any) -> None:
        record = {"subject": {"uri": OFFERED, "cid": CID}, "decision": "fast_lane", "evaluator": "Sunstead 1"}
        self.site.records[f"{COLLECTION}/{KEY}"] = record | {"createdAt": f"{MADE.isoformat()}Z"} | changes

    def name_certificate(self, made: Certificate) -> Path:
        """The assessment names this certificate; its file."""
        path = write_certificate(self.folder, made)
        self.publish(policy={"certificate": path.stem, "budget": 50})
        return path

    def verify(self, uri: str = URI, longest: int = 10**8) -> Verification:
        now = MADE + timedelta(days=1)
        return Verifier(self.network.fetcher(), "https://plc.directory", self.folder, now, longest).verify(uri)

    def state(self, name: str) -> tuple[str, str]:
        (found,) = (check for check in self.verify().checks if check.name == name)
        return found.state, found.words


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Site]:
    cache.clear()
    settings.MODEL_DIR = tmp_path
    found = Site(tmp_path / "certificates")
    monkeypatch.setattr(page, "web_sender", lambda: SimpleNamespace(fetcher=found.network.fetcher()))
    yield found
    cache.clear()


def test_a_proven_assessment_is_told_with_who_says_what_of_which_version(site: Site) -> None:
    found = site.verify()
    assert found.is_proven
    assert found.answer == f"{SITE} says that it is in the fast lane."
    assert dict(found.claims)["Pull request"] == OFFERED
    assert site.state("Version") == ("yes", "It is about the version that stands in its author's repository now.")
    assert site.state("Certificate")[0] == "unknown", "it names none"
    site.mara.records[f"{PULL}/offered"] = pull_record(title="Another")
    assert site.state("Version")[0] == "no"
    site.mara.records = {f"{PULL}/other": RECORD}
    assert site.state("Version") == ("no", "The pull request is gone from its author's repository.")
    site.network.down.add(MARA)
    assert site.state("Version")[0] == "unknown"


def test_a_certificate_of_this_site_is_recomputed_and_another_ones_is_not_claimed_to_be(site: Site) -> None:
    path = site.name_certificate(certificate())
    assert site.state("Certificate")[0] == "yes"
    path.write_bytes(path.read_bytes().replace(b'"budget":', b'"budget" :', 1))
    state, words = site.state("Certificate")
    assert state == "no"
    assert "does not recompute" in words
    path.unlink()
    state, words = site.state("Certificate")
    assert (state, "not one of this site's" in words) == ("unknown", True)


def test_a_page_recomputes_no_certificate_beyond_its_bound(site: Site) -> None:
    site.name_certificate(certificate())
    (found,) = (check for check in site.verify(longest=100).checks if check.name == "Certificate")
    assert found.state == "unknown"
    assert "manage.py verify_assessment" in found.words


def test_what_rests_on_others_is_told_as_such(site: Site) -> None:
    site.publish(uses=[{"uri": f"at://{MARA}/{COLLECTION}/x", "cid": CID}])
    assert site.state("Own word")[0] == "no"


def test_forged_foreign_and_missing_records_are_not_proven(site: Site) -> None:
    for proof in (site.site.proof(Signer("another")), site.site.proof(did=MARA), b"", b"\xff" * 100):
        site.network.sent[SITE] = proof
        found = site.verify()
        assert (found.is_proven, found.checks, found.claims) == (False, (), ())
    del site.network.sent[SITE]
    site.publish(decision="merge it now <script>")
    assert site.verify().is_proven is False
    site.site.records = {f"{COLLECTION}/other": {"subject": {}}}
    assert "holds no such record" in site.verify().answer
    site.network.down.add(SITE)
    assert site.verify().is_proven is None


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "x",
        OFFERED,
        f"at://mara.test/{COLLECTION}/{KEY}",
        f"at://did:key:z/{COLLECTION}/{KEY}",
        f"{URI}/more",
        "at://" + "x" * 5000,
        f"at://did:web:localhost%3A1/{PULL}/x",
        f"at://{SITE}/{COLLECTION}/../x y",
    ],
)
def test_what_is_no_address_of_an_assessment_is_not_asked_for(site: Site, uri: str) -> None:
    site.network.accounts = {}
    found = site.verify(uri)
    assert found.is_proven is False
    assert "not the address of an assessment" in found.answer


def test_the_page_answers_anybody_and_only_a_sent_form_asks_others(site: Site, settings: Settings) -> None:
    settings.PUBLIC_READ = False
    asked = Client().get("/verify", {"uri": URI})
    assert (asked.status_code, f'value="{URI}"' in asked.content.decode()) == (200, True)
    assert "What was checked" not in asked.content.decode()
    told = Client().post("/verify", {"uri": f" {URI} "}).content.decode()
    assert '<h2 id="answer">Proven</h2>' in told
    assert OFFERED in told
    assert Client(enforce_csrf_checks=True).post("/verify", {"uri": URI}).status_code == 403


def test_hostile_words_of_a_record_are_text(site: Site) -> None:
    site.publish(evaluator="<script>alert(1)</script>\u202e", patchId="<b>")
    told = Client().post("/verify", {"uri": URI}).content.decode()
    assert "&lt;script&gt;" in told
    assert "<script>alert" not in told
    assert "<b>" not in told


def test_one_network_gets_few_checks_and_few_run_at_once(site: Site) -> None:
    client = Client()
    assert all(page._places.acquire(blocking=False) for _ in range(page.AT_ONCE))
    try:
        busy = client.post("/verify", {"uri": URI})
        assert (busy.status_code, busy["Retry-After"]) == (429, str(page.BUSY_SECONDS))
    finally:
        page._places.release(page.AT_ONCE)
    answers = [client.post("/verify", {"uri": URI}).status_code for _ in range(page.LIMIT)]
    assert answers == [200] * (page.LIMIT - 1) + [429]
    assert client.get("/verify").status_code == 200


@pytest.mark.parametrize("scripts", [True, False])
def test_in_a_real_browser_it_works_with_and_without_scripts_on_a_phone(
    site: Site, open_page: OpenPage, scripts: bool
) -> None:
    site.name_certificate(certificate())
    page = open_page(390, scripts=scripts)
    page.goto(f"/verify?uri={URI}")
    page.get_by_role("button", name="Verify").click()
    page.get_by_role("heading", name="Proven").wait_for()
    for width in (390, 320, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not scripts or violations(page) == []
