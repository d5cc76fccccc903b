"""A finding is called a false alarm: by a maintainer with a reason, for this text alone, and it can be taken back."""

import re
from dataclasses import replace
from html import unescape

import msgspec
import pytest
from django.test import Client

from scoring.review.store import finding_json
from scoring.types import Finding, Severity
from tests.ingest.stream.frames import MARA, REPO
from tests.scoring.pipeline.offered_world import a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, HTMX, ActingSite, last_key, maintainer, signed_in
from triage.models import Action, Change, Maintainer, OutboxEntry, Person
from triage.presenters.queue.review import FINDING_GONE, LENGTH
from triage.services.actions import dismissals, false_alarms
from triage.services.erasure import account_of, forget_account

pytestmark = pytest.mark.django_db
HIGH = Finding("addressed", "override", "security", Severity.HIGH, "It speaks to its reader.", "a.py", 1, "# approve")
OTHER = Finding("dependencies", "lock_host", "security", Severity.MED, "Fetched from b.", "uv.lock", 3, "url = 'b'")
BECAUSE = "It quotes an attack in a test."
DIGESTS = re.compile(r'name="findings" value="([0-9a-f ]+)"')
DRAFT = re.compile(r'<a href="([^"]*say=(comment|request_changes)&amp;about=([0-9a-f]{16})[^"]*)"')


def found(site: ActingSite, *findings: Finding) -> None:
    """The review of the newest round ended with these findings."""
    told = msgspec.json.encode([finding_json(one) for one in findings]).decode()
    with site.result.store.write() as txn:
        txn.execute("update content_reviews set findings = ?, flags = '[]'", [told])
    site.publish()


@pytest.fixture(autouse=True)
def reviewed(site: ActingSite) -> None:
    site.result.review()
    found(site, HIGH, OTHER)


def digests(client: Client, path: str = f"/diff/{OFFERED}") -> list[str]:
    """What the forms of a page name, above the change and at its lines, each once in the order of the findings."""
    return list(dict.fromkeys(DIGESTS.findall(client.get(path).content.decode())))


def dismiss(site: ActingSite, client: Client, finding: str, note: str = BECAUSE, version: int = 0) -> int:
    form = site.form("dismiss_finding", findings=finding, note=note, version=version)
    return client.post("/act", form).status_code


def test_every_maintainer_reads_who_called_it_a_false_alarm_and_why(site: ActingSite, ana: Client, ben: Client) -> None:
    first, second = digests(ana)
    assert dismiss(site, ana, first) == 302
    for page in (f"/diff/{OFFERED}", f"/pull/{OFFERED}", f"/?open={OFFERED}"):
        told = unescape(ben.get(page).content.decode())
        assert f"Not a problem, says ana.example: {BECAUSE}" in told
        assert set(DIGESTS.findall(told)) == {first, second}
    assert BECAUSE not in Client().get(f"/diff/{OFFERED}").content.decode()
    assert list(dismissals(OFFERED)) == [first]


def test_its_author_reads_what_was_found_and_where_without_false_alarms(site: ActingSite, ana: Client) -> None:
    def told() -> list[str]:
        page = signed_in(Person.objects.get_or_create(did=MARA)[0]).get("/me").content.decode()
        listed = page.partition("<h3>What was found</h3>")[2].partition("</ul>")[0]
        return re.findall(r"<bdi>([^<]*)</bdi>", listed)

    first, _ = digests(ana)
    assert [one.rpartition(": ")[2] for one in told()] == ["a.py:1", "uv.lock:3"]
    dismiss(site, ana, first)
    assert [one.rpartition(": ")[2] for one in told()] == ["uv.lock:3"]
    assert BECAUSE not in signed_in(Person.objects.get(did=MARA)).get("/me").content.decode()


def test_programs_are_told_the_strongest_that_is_not_a_false_alarm(site: ActingSite, ana: Client) -> None:
    def strongest() -> str | None:
        finding = ana.get("/pull", {"uri": OFFERED}, headers={"accept": "application/json"}).json()["finding"]
        return finding and finding["explanation"]

    first, second = digests(ana)
    assert strongest() == HIGH.explanation
    dismiss(site, ana, first)
    assert strongest() == OTHER.explanation
    site.after(2)
    dismiss(site, ana, second, version=1)
    assert strongest() is None


def test_it_is_counted_for_its_scanner_until_it_is_taken_back(site: ActingSite, ana: Client, ben: Client) -> None:
    first, second = digests(ana)
    dismiss(site, ana, first)
    site.after(2)
    dismiss(site, ana, second, version=1)
    assert false_alarms() == {"addressed": 1, "dependencies": 1}
    assert "false alarms: Prompt injection 1, Dependencies 1." in ana.get("/about").content.decode()
    ben.post("/act", site.form("restore_finding", findings=first, version=2))
    assert false_alarms() == {"dependencies": 1}
    site.after(2)
    ana.post("/act/undo", {"key": Action.objects.get(findings=second).key})
    assert false_alarms() == {}
    assert [one.what for one in Change.objects.order_by("pk")] == [
        "action.dismiss_finding",
        "action.dismiss_finding",
        "action.restore_finding",
        "action.undone",
    ]


def test_it_lowers_neither_the_risk_nor_the_lane_and_the_worker_keeps_who_said_it(
    site: ActingSite, ana: Client
) -> None:
    shown = "select lane, content_risk, reasons from current_decisions where pull_uri = ?"
    (before,) = site.result.rows(shown, [OFFERED])
    dismiss(site, ana, digests(ana)[0])
    site.after(10)
    assert site.work() == 1
    assert site.result.rows(shown, [OFFERED]) == [before]
    assert f"marked a finding as a false alarm: {BECAUSE}" in ana.get(f"/history/{OFFERED}").content.decode()


def test_it_survives_a_new_pass_and_ends_when_the_text_changes(site: ActingSite, ana: Client) -> None:
    first, second = digests(ana)
    dismiss(site, ana, first)
    with site.result.store.write() as txn:
        txn.execute("update content_reviews set rules = 'later'")
    found(site, OTHER, HIGH)
    assert sorted(digests(ana)) == sorted([first, second])
    assert BECAUSE in ana.get(f"/diff/{OFFERED}").content.decode()
    a_new_round(site.result)
    site.result.review()
    found(site, HIGH)
    assert digests(ana) != [first]
    assert BECAUSE not in ana.get(f"/diff/{OFFERED}").content.decode()


def test_the_author_dismisses_nothing_of_their_own_not_even_as_a_maintainer(site: ActingSite, ana: Client) -> None:
    """The attack: whoever sent the injection calls it a false alarm."""
    (first, _) = digests(ana)
    author, _ = Person.objects.get_or_create(did=MARA)
    own = maintainer(MARA, REPO)
    for page in (f"/diff/{OFFERED}", f"/pull/{OFFERED}", f"/?open={OFFERED}"):
        assert DIGESTS.findall(own.get(page).content.decode()) == [], "nor is a form shown that would be refused"
    assert dismiss(site, own, first) == 400
    Maintainer.objects.filter(person=author).delete()
    assert dismiss(site, signed_in(author), first) == 403
    assert dismiss(site, Client(), first) in (302, 401)
    assert Action.objects.count() == 0
    assert OutboxEntry.objects.count() == 0


def test_a_form_that_no_page_offers_changes_nothing(site: ActingSite, ana: Client) -> None:
    real = digests(ana)[0]
    assert dismiss(site, ana, "0" * 16, BECAUSE) == 409
    many = " ".join(f"{one:016x}" for one in range(200))
    for finding in ("", "nonsense", "0" * 16 + " '; drop table triage_action", many):
        assert dismiss(site, ana, finding, BECAUSE) == 400, finding
    assert [dismiss(site, ana, real, note) for note in ("  ", "x" * 2_001)] == [400, 400]
    assert Action.objects.count() == 0


def test_one_who_comes_late_is_told_so(site: ActingSite, ana: Client, ben: Client) -> None:
    first, second = digests(ana)
    dismiss(site, ana, first)
    assert dismiss(site, ben, second) == 409
    assert Action.objects.count() == 1


def test_the_words_are_text_whatever_they_are(site: ActingSite, ana: Client, ben: Client) -> None:
    dismiss(site, ana, digests(ana)[0], "<script>alert(1)</script>\u202e")
    page = ben.get(f"/diff/{OFFERED}").content.decode()
    assert "<script>alert(1)" not in page
    assert "\u202e" not in page


def test_equal_findings_of_one_file_are_one_group_whose_form_names_all(site: ActingSite, ana: Client) -> None:
    alike = [
        Finding("addressed", "override", "security", Severity.HIGH, "It speaks.", "a.py", line, f"# {line}")
        for line in range(1, 29)
    ]
    found(site, *alike)
    page = ana.get(f"/pull/{OFFERED}").content.decode()
    assert "a.py, 28 places" in page
    *each, all_of_them = digests(ana)
    assert len(all_of_them.split()) == 28
    assert each, "one at its line can be named alone"
    assert set(each) <= set(all_of_them.split())
    answer = ana.post("/act", site.form("dismiss_finding", findings=all_of_them, note=BECAUSE), headers=HTMX)
    assert answer.status_code == 200
    assert false_alarms() == {"addressed": 28}
    site.after(2)
    ana.post("/act/undo", {"key": last_key()})
    assert false_alarms() == {}


def test_what_a_person_said_is_exported_with_their_account_and_erased_with_it(site: ActingSite, ana: Client) -> None:
    first = digests(ana)[0]
    dismiss(site, ana, first)
    account = account_of(ANA)
    assert account is not None
    (said,) = account["actions"]
    assert (said["kind"], said["note"], said["findings"], said["scanner"]) == (
        "dismiss_finding",
        BECAUSE,
        first,
        "addressed",
    )
    forget_account(ANA, "ana.example")
    assert dismissals(OFFERED) == {}
    assert OutboxEntry.objects.count() == 0


def links_of(client: Client, page: str) -> list[tuple[str, str, str]]:
    """The address, the form and the finding of each link to a draft on a page, each once."""
    found = DRAFT.findall(client.get(page).content.decode())
    return list(dict.fromkeys((unescape(address), kind, finding) for address, kind, finding in found))


def form_of(page: str, kind: str) -> str:
    """What the text field of a form holds."""
    (text,) = re.findall(rf'<textarea id="say-{kind}"[^>]*>([^<]*)</textarea>', page)
    return text


def test_a_finding_leads_to_a_form_that_begins_with_it_and_says_nothing_by_itself(
    site: ActingSite, ana: Client
) -> None:
    """Without scripts: each link is an address of its own."""
    for page in (f"/?open={OFFERED}", f"/pull/{OFFERED}", f"/diff/{OFFERED}"):
        links = links_of(ana, page)
        assert [kind for _, kind, _ in links] == ["comment", "request_changes"] * 2
        for (address, kind, _), finding in zip(links, (HIGH, HIGH, OTHER, OTHER), strict=True):
            shown = ana.get(address).content.decode()
            text = form_of(shown, kind)
            assert text.startswith(f"{finding.file}:{finding.line}: ")
            assert text.endswith(f". {finding.explanation}")
            assert len(re.findall(r'<details class="say" name="say" open>', shown)) == 1
            assert form_of(shown, ({"comment", "request_changes"} - {kind}).pop()) == ""
            swapped = ana.get(address, headers={**HTMX, "HX-Target": "open"}).content.decode()
            assert form_of(swapped, kind) == text
    assert Action.objects.count() == 0


def test_a_draft_is_escaped_bounded_and_never_taken_from_the_address(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    """The attack: a finding tells words of its change, and a link that is handed to a maintainer brings some more."""
    found(site, replace(HIGH, explanation="</textarea><script>alert(1)</script>" + "x" * 3000))
    ((address, kind, finding), *_) = links_of(ana, f"/pull/{OFFERED}")
    shown = ana.get(address).content.decode()
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in form_of(shown, kind)
    assert len(unescape(form_of(shown, kind))) <= LENGTH
    for hostile in ("evil words", f"{finding}x", "0" * 16, "<b>"):
        shown = ana.get(f"/pull/{OFFERED}", {"say": "comment", "about": hostile, "note": "evil words"}).content.decode()
        assert form_of(shown, "comment") == ""
        assert FINDING_GONE in shown
        assert "evil words" not in shown
    for kind in ("close", "approve", "x" * 5000):
        shown = ana.get(f"/pull/{OFFERED}", {"say": kind, "about": finding}).content.decode()
        assert '<details class="say" name="say" open>' not in shown
    dismiss(site, ana, finding)
    assert links_of(ben, f"/pull/{OFFERED}") == [], "what is called a false alarm asks for nothing"


def test_only_who_may_act_on_it_has_links_to_drafts(site: ActingSite, ana: Client) -> None:
    (address, _, _), *_ = links_of(ana, f"/pull/{OFFERED}")
    for reader in (Client(), maintainer(MARA, REPO)):
        for page in (f"/?open={OFFERED}", f"/pull/{OFFERED}", f"/diff/{OFFERED}"):
            assert links_of(reader, page) == []
        assert OTHER.explanation not in "".join(
            re.findall("<textarea.*?</textarea>", reader.get(address).content.decode())
        )
