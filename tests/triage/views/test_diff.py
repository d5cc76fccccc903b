"""The page of a change over a real store: who may see it, which round it shows, what it says where there is none."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from django.test import Client
from pytest_django import Settings

from scoring.queries.rounds import ROUNDS_SHOWN
from scoring.review.store import UNFINISHED, finding_json
from scoring.types import Finding, Severity
from tests.ingest.stream.frames import BLOB, MARA
from tests.scoring.offered import CLEAN, offer
from tests.scoring.pipeline.offered_world import BLOBS, SECOND, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ActingSite, acting_site, invited, signed_in
from tests.triage.worlds.lane_site import NEXT, lane_site
from tests.triage.worlds.pages_world import reader

pytestmark = pytest.mark.django_db
BEN = "did:plc:" + "3" * 24
PAGE, PATCH = f"/diff/{OFFERED}", f"/patch/{OFFERED}"
TOKEN = "token = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'"


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    settings.PUBLIC_READ = True
    with acting_site(tmp_path, settings, monkeypatch) as made:
        yield made


def text_of(client: Client, path: str = PAGE, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status, path
    return response.content.decode()


def anybody() -> Client:
    return Client()


def somebody() -> Client:
    return signed_in(invited("did:plc:" + "5" * 24))


def fetched(site: ActingSite, **changes: object) -> None:
    """Change what is stored of the patch of the newest round, and show it."""
    with site.result.store.write() as txn:
        for column, value in changes.items():
            txn.execute(f"update patches set {column} = ? where pull_uri = ?", [value, OFFERED])
    site.publish()


def found(site: ActingSite, *findings: Finding, ref: str = f"blob:{BLOB}") -> None:
    """A review that ended with these findings."""
    told = [finding_json(finding) for finding in findings]
    with site.result.store.write() as txn:
        txn.upsert(
            "content_reviews",
            [
                {
                    **UNFINISHED,
                    "pull_uri": OFFERED,
                    "patch_ref": ref,
                    "said": "x",
                    "rules": "1",
                    "repository_id": 1,
                    "record_cid": None,
                    "round": 0,
                    "attempts": 1,
                    "failures": 0,
                    "state": "content verdict",
                    "findings": msgspec.json.encode(told).decode(),
                    "begun_clock": site.result.store.wall(),
                    "reviewed_clock": site.result.store.wall(),
                }
            ],
        )
    site.publish()


SECRET = Finding("secrets", "token", "secret_leak", Severity.HIGH, "A token.", "a.py", 2, "token = '***'")


def test_a_change_is_a_page_and_for_htmx_its_part_alone(site: ActingSite) -> None:
    page, part = text_of(anybody()), anybody().get(PAGE, headers={"HX-Request": "true"})
    assert page.startswith("<!doctype html>")
    assert page.count("<h1>") == 1
    assert '<strong class="mono">a.py</strong>' in page
    assert '<tr class="plus">' in page
    assert part.content.decode().startswith('<section class="change')
    assert {"HX-Request", "Cookie", "Accept"} <= set(part["Vary"].split(", "))
    assert {"private", "no-cache"} <= set(part["Cache-Control"].split(", "))


def test_each_finding_leads_to_its_line_wherever_the_change_is_shown(site: ActingSite) -> None:
    with site.result.store.write() as txn:
        txn.execute("delete from content_reviews")
    site.result.review()
    found(site, SECRET)
    with site.result.store.write() as txn:
        txn.execute(
            "update content_reviews set findings = (select any_value(findings) from content_reviews where said = 'x')"
        )
    site.publish()
    for page in (
        text_of(reader(), f"/pull/{OFFERED}"),
        text_of(reader(), f"/?open={quote(OFFERED)}"),
        text_of(anybody()),
    ):
        link = re.search(r'class="chip" href="#(at-[^"]*)">[^<]*a\.py:2</a>', page)
        assert link is not None
        assert f'<tr id="{link[1]}" class="told">' in page


def test_a_flag_of_a_model_is_told_under_its_line(site: ActingSite) -> None:
    site.result.review()
    flag = '[{"type": "subtle_bug", "severity": "med", "location": "a.py:2", "explanation": "Look."}]'
    with site.result.store.write() as txn:
        txn.execute("update content_reviews set reviewer = 'claude-sonnet-4-6', findings = '[]', flags = ?", [flag])
    site.publish()
    page = text_of(reader(), f"/pull/{OFFERED}")
    line, told = page.index("print"), page.index("Look.", page.index('class="told"'))
    assert line < told
    assert "a.py:2" in page


def test_the_patch_as_text_is_for_people_who_are_signed_in(site: ActingSite) -> None:
    assert "sign-in" in anybody().get(PATCH)["Location"]
    page = text_of(anybody())
    assert PATCH not in page
    assert "The plain patch contains e-mail addresses" in page
    assert f'href="/sign-in?next={quote(PAGE, safe="")}">sign in</a>' in page
    response = somebody().get(PATCH)
    assert response.content.decode() == CLEAN
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "private" in response["Cache-Control"]
    assert f'href="{PATCH}"' in text_of(somebody())


def test_a_change_that_nobody_watches_or_whose_author_is_hidden_is_not_there(site: ActingSite) -> None:
    for path in ("/diff/at://did:plc:nobody/x/y", "/patch/at://did:plc:nobody/x/y", "/diff/../../etc/passwd"):
        text_of(somebody(), path, 404)
    with site.result.store.write() as txn:
        txn.execute("update contributors set account_status = 'takendown' where did = ?", [MARA])
    site.publish()
    for path in (PAGE, PATCH):
        assert "so it is hidden for now" in text_of(somebody(), path, 404)
    with site.result.store.write() as txn:
        txn.execute("update pull_requests set state = 'merged' where pull_uri = ?", [OFFERED])
    site.publish()
    page = text_of(somebody(), f"/history/{OFFERED}")
    assert "The change is not shown: the account of its author was taken down" in page
    assert PAGE not in page, "no link leads to what is hidden"


def test_a_secret_is_masked_for_whoever_does_not_maintain_the_repository(site: ActingSite) -> None:
    offer(site.result, CLEAN.replace("print(2)", TOKEN), ref=f"blob:{BLOB}")
    found(site, SECRET)
    for client in (anybody(), somebody()):
        page = text_of(client)
        assert "ghp_" not in page
        assert "token = &#x27;***&#x27;" in page
    assert "ghp_" in text_of(site.maintainer(BEN, "ben.example"))


def test_what_the_audit_keeps_back_is_not_told_by_the_diff(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lane_site(tmp_path, settings, monkeypatch, audited=True) as site:
        with site.result.store.write() as txn:
            note = msgspec.json.encode([finding_json(SECRET)]).decode()
            txn.execute("update content_reviews set findings = ?", [note])
        site.publish()
        ben = site.maintainer(BEN, "ben.example")
        page = text_of(ben, f"/diff/{NEXT}")
        assert "print" in page
        assert "A token." not in page
        form = {name: value for name, value in site.form(uri=NEXT).items() if value is not None}
        ben.post("/audit", {**form, "answer": "yes", "because": "small"})
        assert "A token." in text_of(ben, f"/diff/{NEXT}")


def test_rounds_are_chosen_by_links_and_compared_with_one_another(site: ActingSite) -> None:
    a_new_round(site.result)
    site.publish()
    page = text_of(anybody())
    assert "print" in page
    assert re.findall(r'<a( aria-current="true")? href="([^"]*)">([^<]*Round [^<]*)</a>', page) == [
        ("", f"{PAGE}?round=1", "Round 1"),
        (' aria-current="true"', PAGE, "Round 2, latest"),
        ("", f"{PAGE}?since=1", "Changes since Round 1"),
    ]
    assert "Rounds: </span>Round 2, latest</summary>" in page
    compared = text_of(anybody(), f"{PAGE}?since=1")
    assert "1 file differs between the two rounds." in compared
    assert compared.count('<tr class="plus">') == 1, "only the later round adds it"
    assert compared.count('<tr class="minus">') == 1, "only the earlier round added it"
    assert "The other round is not known here." in text_of(anybody(), f"{PAGE}?since=2")
    assert "is not known here" in text_of(anybody(), f"{PAGE}?round=9&since=%00&file=-1")


def test_a_rebase_without_change_is_called_one(site: ActingSite) -> None:
    a_new_round(site.result, CLEAN.replace("@@ -1 +1,2 @@", "@@ -7 +7,2 @@"))
    site.publish()
    assert "as after a rebase without change" in text_of(anybody(), f"{PAGE}?since=1")
    fetched(site)
    offer(site.result, CLEAN.replace("print(1)", "print(0)"), OFFERED, f"blob:{BLOBS[1]}")
    site.publish()
    assert "A rebase without change" in text_of(anybody(), f"{PAGE}?since=1")


def test_of_very_many_rounds_the_newest_are_listed(site: ActingSite) -> None:
    with site.result.store.write() as txn:
        txn.execute(
            "insert into pull_rounds select ?, range, 'blob:' || range, null, null, now()::timestamp, true "
            "from range(1, 90)",
            [OFFERED],
        )
    site.publish()
    assert len(re.findall(r'<a [^>]*href="[^"]*round=', text_of(anybody()))) == ROUNDS_SHOWN


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sha256": None}, "is no longer stored"),
        ({"sha256": "0" * 64}, "missing or damaged on this machine"),
        ({"state": "oversized", "bytes": 0}, "larger than the limit"),
        ({"state": "malformed", "bytes": 0}, "is empty"),
    ],
)
def test_a_patch_that_cannot_be_shown_says_why_and_what_to_do(
    site: ActingSite, changes: dict[str, object], said: str
) -> None:
    fetched(site, **changes)
    page = text_of(anybody())
    assert said in page
    assert "Read it on the forge" in page
    assert '<tr class="plus">' not in page
    assert said in text_of(somebody(), PATCH, 404)


def test_a_patch_that_was_cut_or_cannot_be_applied_is_shown_and_says_so(site: ActingSite) -> None:
    fetched(site, state="oversized")
    assert "Only the first" in text_of(anybody())
    fetched(site, state="malformed")
    page = text_of(anybody())
    assert "Git cannot apply this patch." in page
    assert '<tr class="plus">' in page


def test_a_patch_that_was_never_fetched_says_what_its_server_answered(site: ActingSite) -> None:
    with site.result.store.write() as txn:
        txn.execute("delete from patches where pull_uri = ?", [OFFERED])
    site.publish()
    assert "has not arrived" in text_of(anybody())
    with site.result.store.write() as txn:
        subject = f"{OFFERED} blob:{BLOB}"
        txn.execute(
            "insert into fetches values ('patch', ?, 'failed', '<b>gone\u202e', 3, null, now()::timestamp)", [subject]
        )
    site.publish()
    page = text_of(anybody())
    assert "could not be fetched: &lt;b&gt;gone⟨U+202E⟩" in page
    assert "It loads automatically." in page
    with site.result.store.write() as txn:
        txn.execute("delete from pull_rounds where pull_uri = ?", [OFFERED])
        txn.execute("update pull_requests set patch_ref = null where pull_uri = ?", [OFFERED])
    site.publish()
    assert "Its record names no patch" in text_of(anybody())


def test_one_file_of_a_change_has_an_address_of_its_own(site: ActingSite) -> None:
    offer(site.result, CLEAN + CLEAN.replace("a.py", "b.py"), SECOND, f"blob:{BLOBS[2]}")
    site.publish()
    page = text_of(anybody(), f"/diff/{SECOND}?file=2")
    assert '<strong class="mono">b.py</strong>' in page
    assert '<strong class="mono">a.py</strong>' not in page
    assert f'href="/diff/{SECOND}">All files' in page


def test_a_change_is_only_read(site: ActingSite) -> None:
    assert somebody().post(PAGE).status_code == 405
    assert somebody().head(PAGE).status_code == 200
