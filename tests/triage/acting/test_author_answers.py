"""A maintainer's request reaches its author, who answers it here once; then it is the maintainers' turn."""

import re
from collections.abc import Mapping
from datetime import datetime
from html import unescape
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from tests.ingest.stream.frames import ANA as TUTOR
from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.scoring.pipeline.offered_world import SECOND, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, ActingSite, invited, last_key, signed_in
from triage.access.permissions import roles_of
from triage.access.tokens import author_address, make_link
from triage.models import Action, Change, ContributorLink, OutboxEntry, Person
from triage.services.erasure import account_of, forget_account

pytestmark = pytest.mark.django_db
ASKED = "<b>Test</b> it, please.\r\nAll of \u202eit."
ASKED_LINES = "<b>Test</b> it, please.\nAll of ⟨U+202E⟩it."
HOSTILE = "<script>alert(1)</script>\r\nDone \u202enow."


def text(answer: Any) -> str:
    return unescape(answer.content.decode())


def page_of(client: Client, address: str) -> str:
    return text(client.get(address))


def ask(site: ActingSite, by: Client, kind: str = "request_changes", uri: str = OFFERED, note: str = ASKED) -> None:
    """A maintainer writes to the author, and ten seconds go by."""
    version = Action.objects.filter(pull_uri=uri).count()
    assert by.post("/act", site.form(kind, uri, version, note=note)).status_code == 302
    site.after(11)
    site.work()


def link(site: ActingSite, pull: str = "", did: str = MARA) -> tuple[str, Mapping[str, str]]:
    """A private link: the address that it opens, and what its forms send."""
    token = make_link(Person.objects.get(did=ANA), did, REPO, pull, site.now)
    return f"/c/{did}/{'decision' if pull else 'data'}/{token}", {"link": token}


def answer(held: Mapping[str, str], said: str = HOSTILE, uri: str = OFFERED, client: Client | None = None) -> Any:
    return (client or Client()).post(f"/c/{MARA}/answer", {**held, "pull": uri, "text": said})


def waiting(client: Client, address: str = "/me") -> int:
    """The number of answer fields, which navigation and heading count too; a link to one page needs no count."""
    page = page_of(client, address)
    fields = page.count('<button class="button primary">Answer</button>')
    counts = re.findall(r"Yours \((\d+)\)<span class=\"unseen\"> waiting for your answer", page)
    counts += re.findall(r"<strong>(\d+) waits? for your answer\.</strong>", page)
    assert set(map(int, counts)) <= {fields}
    assert bool(counts) == bool(fields) or "/decision/" in address
    return fields


def mara() -> Client:
    """The browser of the author, who has no role."""
    return signed_in(Person.objects.get_or_create(did=MARA)[0])


def test_what_is_asked_stands_on_top_of_the_authors_page_and_one_answer_gives_the_turn_back(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    author = mara()
    ben.post("/act", site.form("request_changes", note=ASKED))
    assert waiting(author) == 0, "it can be undone yet"
    site.after(11)
    site.work()
    for address in ("/me", f"/me/pull/{OFFERED}"):
        assert waiting(author, address) == 1
        page = page_of(author, address).partition("<h1>")[2]
        asked = page.partition("A maintainer of <bdi>lantern</bdi> asked you for changes on 20 Nov")[2]
        assert "&lt;b&gt;Test&lt;/b&gt; it, please.<br>All of ⟨U+202E⟩it." in author.get(address).content.decode()
        places = [
            asked.find(words) for words in ("Test", "Your answer", "makes it the maintainers' turn", "What helps")
        ]
        assert -1 not in places
        assert places == sorted(places)
    assert "Waiting on author." in ana.get("/").content.decode()
    pasted = text(ana.post(f"/c/{MARA}/links"))
    assert "Hello. A maintainer waits there for your answer about “Mend the lamp”. Everything that" in pasted
    shown = answer({}, client=author)
    assert shown["Location"] == f"/me/pull/{OFFERED}"
    page = page_of(author, shown["Location"])
    assert "Your answer is saved. The maintainers read it" in page
    assert "A maintainer will look at it." in page, "also before the worker knows"
    assert "Your answer on round 1" in page
    assert (waiting(author), "Waits for your answer" in page) == (0, False)
    row, pane = page_of(ana, "/"), page_of(ana, f"/pull/{OFFERED}")
    assert "Its author answered." in row
    assert "Its author answered." in pane
    assert "Waiting on author" not in row + pane, "also before the worker knows"
    read = ana.get(f"/pull/{OFFERED}").content.decode()
    assert read.count("&lt;script&gt;alert(1)&lt;/script&gt;<br>Done ⟨U+202E⟩now.") == 2, "before the change, and below"
    assert "Done" not in page_of(signed_in(invited(f"did:plc:{'v' * 24}")), f"/pull/{OFFERED}")
    assert "waits there for your answer" not in text(ana.post(f"/c/{MARA}/links"))
    site.work()
    assert "Waiting on author" not in page_of(ana, "/")
    assert "answered: <script>alert(1)</script> Done ⟨U+202E⟩now." in page_of(ana, f"/history/{OFFERED}")
    assert "Answered as its author" in page_of(ana, "/changes")
    ana.post("/act", site.form("comment", version=2, note="Thanks."))
    assert "Its author answered." not in page_of(ana, "/"), "somebody read it"
    assert "asked for changes." not in page_of(ana, "/")
    late = answer({}, "Once more", client=author)
    assert (late.status_code, "Nothing here waits" in text(late), "Once more" in text(late)) == (409, True, True)


def test_the_authors_page_leads_to_the_forge_and_says_how_their_tests_went(site: ActingSite) -> None:
    author = mara()
    assert "CI " not in page_of(author, "/me").partition("<h1>")[2].partition("Decided")[0]
    for state, said in (("passed", "CI passed"), ("failed", "CI failed")):
        site.run_ci({OFFERED: state})
        for address in ("/me", f"/me/pull/{OFFERED}"):
            page = page_of(author, address)
            assert f'<span class="ci-{state}">{said}</span>' in page
            assert re.search(r'<a href="https://tangled\.org/[^"<> ]+" rel="noreferrer"><svg.*? on Tangled</a>', page)


def test_the_holder_of_a_private_link_answers_what_it_opens_and_the_maintainers_read_that_it_came_by_one(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    ask(site, ben)
    address, held = link(site, OFFERED)
    assert waiting(Client(), address) == 1
    assert answer(held, uri=SECOND).status_code == 403, "it is another's and another decision"
    assert answer(held)["Location"] == address
    assert waiting(Client(), address) == 0
    made = Action.objects.latest("pk")
    assert (made.kind, made.by_link, made.person.did, made.effective_at) == ("answer", True, MARA, site.now)
    assert roles_of(made.person).highest() == 0
    assert "answer here, by a private link" in page_of(ana, f"/pull/{OFFERED}")
    assert "the contributor, by a private link" in page_of(ana, "/changes")
    whole = link(site)
    ask(site, ben, "comment")
    assert waiting(Client(), whole[0]) == 1, "a comment waits too"
    ContributorLink.objects.update(revoked_at=site.now)
    assert answer(whole[1]).status_code == 410


def test_nobody_else_answers_and_no_text_that_cannot_be_kept_is_taken(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    ask(site, ben)
    for client in (ana, ben, signed_in(invited(f"did:plc:{'v' * 24}"))):
        assert answer({}, client=client).status_code == 403
    assert answer({}).status_code == 302, "to the sign-in"
    assert ana.post("/act", site.form("answer", version=1, note="I am mara.")).status_code == 400
    other = signed_in(Person.objects.create(did=TUTOR))
    assert other.post(f"/c/{TUTOR}/answer", {"pull": OFFERED, "text": "Mine"}).status_code == 409
    strict = Client(enforce_csrf_checks=True)
    assert answer(link(site)[1], client=strict).status_code == 403
    for said, status in (("", 422), (" \n", 422), ("x" * 2_001, 422)):
        refused = answer(link(site)[1], said)
        assert (refused.status_code, said.strip() in text(refused)) == (status, True), "what was written is given back"
    assert answer(link(site)[1], uri="at://\x00").status_code == 409
    assert not Action.objects.filter(kind="answer").exists()
    assert not Person.objects.filter(did=MARA).exists(), "a refused answer leaves no account"


def test_an_answer_is_not_one_to_what_its_author_had_not_read_yet(site: ActingSite, ana: Client, ben: Client) -> None:
    ask(site, ben)
    ana.post("/act", site.form("request_changes", version=1, note="And split it."))
    site.after(5)
    answer({}, client=mara())
    site.after(6)
    site.work()
    page = page_of(mara(), "/me")
    asked = page.partition("<h1>")[2].partition("Your answer")[0]
    assert ("And split it." in asked, "it, please." in asked) == (True, False)
    assert "Waiting on author." in page_of(ana, "/")


@pytest.mark.parametrize("how", ["round", "forge", "withdrawn", "merged", "undone"])
def test_what_is_answered_elsewhere_or_taken_back_waits_no_more(
    site: ActingSite, ana: Client, ben: Client, how: str
) -> None:
    if how == "undone":
        ben.post("/act", site.form("request_changes", note=ASKED))
        ben.post("/act/undo", {"key": last_key()})
        site.after(11)
    else:
        ask(site, ben)
        assert waiting(mara()) == 1
    if how == "round":
        a_new_round(site.result)
    elif how == "withdrawn":
        ana.post("/act", site.form("release", version=1))
    elif how == "merged":
        site.merge(OFFERED)
    elif how == "forge":
        said = dict.fromkeys(("written_at", "seen_at", "changed_at"), datetime(2026, 11, 21))
        with site.result.store.write() as txn:
            about = {"uri": "at://x", "author_id": txn.person_ids([MARA])[MARA], "form": "pull", "subject_uri": OFFERED}
            txn.append("comments", [about | {"body": "Done."} | said])
            txn.inputs_changed()
    site.work()
    assert waiting(mara()) == 0
    assert answer({}, client=mara()).status_code == 409


def test_an_answer_ends_a_snooze_and_goes_with_its_author(site: ActingSite, ana: Client, ben: Client) -> None:
    ask(site, ben)
    ana.post("/snooze", {**site.form(version=1), "until": "week", "next": "/"})
    assert quote_plus(OFFERED) not in page_of(ana, "/")
    site.after(1)
    answer({}, client=mara())
    assert quote_plus(OFFERED) in page_of(ana, "/")
    assert [one["kind"] for one in (account_of(MARA) or {})["actions"]] == ["answer"]
    forget_account(MARA, None)
    assert not Action.objects.exists()
    assert MARA not in repr(list(OutboxEntry.objects.values_list()) + list(Change.objects.values_list()))


@pytest.mark.parametrize("origin", ["", "https://reviews.example.org"])
def test_what_was_asked_is_copied_for_the_author_from_the_toast_and_from_where_it_stands(
    site: ActingSite, ana: Client, ben: Client, settings: Settings, origin: str
) -> None:
    settings.PUBLIC_ORIGIN, settings.STAGED = origin, ""
    for version, (kind, words) in enumerate((("note", "He is slow."), ("request_changes", ASKED))):
        ben.post("/act", site.form(kind, version=version, note=words))
    copied = re.compile(
        r'<textarea id="([a-z-]+)"[^>]*aria-label="Text for the author[^>]*>(.*?)</textarea>', re.DOTALL
    )
    shown = dict(copied.findall(page_of(ben, f"/pull/{OFFERED}")))
    assert shown.keys() == {"told-toast", "for-author"}
    assert ASKED_LINES in shown["told-toast"]
    assert shown["told-toast"] == shown["for-author"]
    told = shown["for-author"]
    assert told.startswith("Changes requested on lantern")
    assert author_address(OFFERED) in told
    how = "sign in there with the account that sent it" if origin else "ask me for a private link"
    assert how in told
    assert "decision~" not in told, "a secret stands in no text for a public comment"
    assert "He is slow." not in told
    assert not ContributorLink.objects.exists()
    site.after(11)
    assert copied.findall(page_of(ben, "/")) == [], "the toast is gone"
    ana.post("/act", site.form("comment", version=2, note="And thanks."))
    both = dict(copied.findall(page_of(ana, f"/pull/{OFFERED}")))["for-author"]
    assert "it.\n\nAnd thanks." in both, "all that waits, in one text"
    ana.post("/act", site.form("release", version=3))
    left = dict(copied.findall(page_of(ana, f"/pull/{OFFERED}")))["for-author"]
    assert left.startswith("A comment on lantern"), "the request was withdrawn"
    settings.SIGN_IN = "invited"
    assert "ask me for a private link" in page_of(ana, f"/pull/{OFFERED}"), "an author without a role does not get in"
    assert "it, please" not in left
    assert copied.findall(page_of(mara(), "/me")) == []
    made = ana.post(f"/c/{MARA}/links", {"pull": OFFERED})
    assert "send it to them alone, by mail or in a private chat, never in a comment on Tangled" in text(made)
    assert f'href="/pull/{OFFERED}">Back' in text(made)


def test_what_was_pasted_on_the_forge_is_not_offered_again(site: ActingSite, ana: Client) -> None:
    ask(site, ana)
    page = page_of(ana, f"/pull/{OFFERED}")
    assert "Copy for the author" in page
    pasted = page.partition('id="for-author"')[2].partition(">")[2].partition("</textarea>")[0]
    said = dict.fromkeys(("written_at", "seen_at", "changed_at"), datetime(2026, 11, 21))
    for number, did in enumerate((SEED, ANA)):
        with site.result.store.write() as txn:
            author = txn.person_ids([did])[did]
            row = {"uri": f"at://{number}", "author_id": author, "form": "pull", "subject_uri": OFFERED, "body": pasted}
            txn.append("comments", [row | said])
            txn.inputs_changed()
        site.publish()
        shown = page_of(ana, f"/pull/{OFFERED}")
        assert ("Copy for the author" in shown) == (did == SEED), "another's paste proves nothing"
    assert "not sent to Tangled: " not in shown


def test_a_stranger_who_follows_the_address_learns_that_something_was_asked_and_never_what(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    cache.clear()
    where = f"/find?{urlencode({'q': OFFERED})}"
    stranger = signed_in(Person.objects.create(did=TUTOR))
    for client in (Client(), stranger, ana):
        assert client.get(f"/me/pull/{OFFERED}")["Location"] == where
        assert "asked its author" not in page_of(client, where)
    ask(site, ben, note="A secret word.")
    for client in (Client(), stranger):
        page = page_of(client, where)
        assert "A maintainer asked its author something here." in page
        assert "secret" not in page
        assert "ben" not in page
    own = f'href="/sign-in?next={quote_plus(f"/me/pull/{OFFERED}")}">Sign in as its author'
    assert own in page_of(Client(), where)
    assert "Sign in as its author" not in page_of(stranger, where)
    assert f'href="/me/pull/{OFFERED}">Read and answer it' in page_of(mara(), where)
    assert page_of(Client(), "/find?q=mara").count("asked its author") == 0
    cache.clear()


def test_an_authors_own_word_as_maintainer_waits_for_nobody_and_is_not_copied(site: ActingSite) -> None:
    own = site.maintainer(MARA, "mara.example")
    ask(site, own, "comment", note="I will rebase it.")
    page = page_of(own, f"/pull/{OFFERED}")
    assert "I will rebase it." in page
    assert "Copy for the author" not in page
    assert "comment</span>" not in page_of(own, "/").partition(quote_plus(OFFERED))[2].partition("</li>")[0]
    assert waiting(own) == 0
