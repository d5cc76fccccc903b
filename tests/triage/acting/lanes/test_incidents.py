"""An incident: the facts known then, what would have held it, what is like it, the lane closed in seconds."""

import re
from collections.abc import Callable
from datetime import datetime

import pytest
from django.test import Client

from ingest.records.pull_state import settle
from ingest.records.watched import set_maintainer
from scoring.queries.past_decisions import BudgetState
from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.pipeline import Later
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.pipeline.offered_world import learn
from tests.scoring.small import DAY, MERGED_AT, OFFERED, feed
from tests.triage.worlds.acting_site import ActingSite, signed_in
from tests.triage.worlds.lane_site import MORE, NEXT, OTHER, lane_site, lanes
from tests.waiting import LONG_SECONDS, ends_by_itself
from triage.models import Action, LaneClosure, OutboxEntry, Person
from triage.presenters.text import budget_words

pytestmark = pytest.mark.django_db
SITE = lane_site
BEN = "did:plc:" + "3" * 24
HOSTILE = "<script>alert(1)</script> \u202egnp"
UNNAMED = "This approval does not name its decision."


def approve(site: ActingSite, client: Client, uri: str = NEXT) -> None:
    """Approved, and the ten seconds are over."""
    client.post("/act", site.form(uri=uri))
    site.after(10)
    site.work()


def mark(site: ActingSite, client: Client, uri: str = NEXT, version: int = 1, outcome: str = "reverted") -> str:
    """Where marking the outcome of what was merged leads."""
    site.merge(uri)
    form = site.form("outcome", uri, version, outcome=outcome, note="it broke the build")
    answer = client.post("/act", form)
    assert answer.status_code == 302
    return answer["Location"]


def part(page: str, name: str) -> str:
    """One card of the incident's page."""
    return page.partition(f'id="{name}"')[2].partition("</article>")[0]


def happened(client: Client, uri: str = NEXT) -> list[str]:
    """Who did what by the history of a pull request, in order."""
    page = client.get(f"/history/{uri}").content.decode()
    lines = re.findall(r"<tr><td><time.*?</td><td><bdi>(.*?)</bdi></td><td>([^<]*)", page)
    return [f"{who} {what}" for who, what in lines]


@pytest.fixture
def page(site: ActingSite, ben: Client) -> str:
    """The incident of an approved, fast-laned change, with another one approved beside it."""
    approve(site, ben)
    approve(site, ben, OTHER)
    return ben.get(mark(site, ben)).content.decode()


def test_marking_an_approved_one_bad_opens_its_incident(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    address = mark(site, ben)
    assert address == f"/incident/{Action.objects.latest('pk').key}"
    page = ben.get(address).content.decode().replace("<bdi>", "").replace("</bdi>", "")
    assert "ben.example marked it as reverted" in page
    assert "<dt>Approved by</dt><dd>ben.example, " in page, "the network knows no handle of ben's, the site does"


def test_a_decided_one_opens_with_what_happened_in_order_and_its_change_below(site: ActingSite, ben: Client) -> None:
    mara, seed = "did:plc:maraaa\N{HORIZONTAL ELLIPSIS}aaaa", "did:plc:seedaa\N{HORIZONTAL ELLIPSIS}aaaa"
    assert happened(ben)[1:] == [], "of an open one its page says how it is judged"
    approve(site, ben)
    site.merge(NEXT)
    told = happened(ben)
    assert [line.rpartition(" ")[0] if "judged" not in line else line for line in told][:1] == [f"{mara} opened"]
    assert told[1].startswith("Sunstead judged it: Fast lane, stays clean 60 % (")
    assert "). Vouched for by" in told[1], "with its first reasons"
    assert told[2].startswith("ben.example approved it")
    assert told[3:] == [f"{seed} merged it"]
    assert happened(Client()) == told
    page = ben.get(f"/history/{NEXT}").content.decode()
    assert page.index("merged it") < page.index('<h2 id="change">') < page.index("print")
    with site.result.store.write() as txn:
        txn.execute("update contributors set account_status = 'takendown' where did = ?", [SEED])
    site.publish()
    assert happened(ben)[3:] == ["a hidden account merged it"]


def test_a_closed_one_says_who_closed_and_reopened_it_and_a_strangers_word_is_none(
    site: ActingSite, ben: Client
) -> None:
    frames = Later(MERGED_AT + 21 * DAY)
    for who, status, key in ((MARA, "closed", "a"), (SEED, "open", "b"), (MARA, "merged", "c"), (SEED, "closed", "d")):
        frames.status(who, MORE, status, rkey=key)
    frames.status("did:plc:" + "7" * 24, MORE, "merged", rkey="e")
    learn(site.result, frames)
    site.publish()
    told = [line.rpartition(" ")[0].rpartition(" ")[2] for line in happened(ben, MORE)]
    assert [word for word in told if word in ("closed", "reopened", "merged")] == ["closed", "reopened", "closed"]


@pytest.mark.parametrize("outcome", ["clean", "needed_fix"])
def test_neither_a_clean_one_nor_one_that_no_lane_let_through_and_nobody_approved_opens_any(
    site: ActingSite, ben: Client, outcome: str
) -> None:
    if outcome == "clean":
        approve(site, ben)
    else:
        with site.result.store.write() as txn:
            txn.execute("update scores set lane = 'normal_queue' where pull_uri = ?", [NEXT])
        site.publish()
    assert mark(site, ben, version=int(outcome == "clean"), outcome=outcome) == "/"
    assert ben.get(f"/incident/{Action.objects.latest('pk').key}").status_code == 404
    assert "0 open" not in ben.get("/").content.decode()
    assert "went wrong" not in ben.get("/incidents").content.decode()


def test_a_void_approval_let_nothing_through_so_no_link_leads_to_an_incident_that_is_none(
    site: ActingSite, ben: Client
) -> None:
    approve(site, ben)
    address = mark(site, ben)
    assert ben.get(address).status_code == 200
    with site.result.store.write() as txn:
        txn.execute("update approvals set state = 'voided', reason = 'changed_after' where pull_uri = ?", [NEXT])
        txn.execute("update scores set lane = 'normal_queue' where pull_uri = ?", [NEXT])
    site.publish()
    assert ben.get(address).status_code == 404
    for page in ("/incidents", f"/history/{NEXT}", "/"):
        assert address not in ben.get(page).content.decode()
    assert "Incidents (" not in ben.get("/").content.decode()
    assert mark(site, ben, version=2, outcome="needed_fix") == "/"


def test_one_that_the_open_lane_let_through_opens_its_incident_without_an_approval(
    site: ActingSite, ben: Client
) -> None:
    address = mark(site, ben, version=0, outcome="needed_fix")
    assert address == f"/incident/{Action.objects.latest('pk').key}"
    page = ben.get(address).content.decode()
    assert "<dt>Let through</dt><dd>by the open fast lane, " in page
    assert "no approval of what was merged</dd>" in page
    assert "<dt>Approved by</dt>" not in page
    assert "<dd>Fast lane</dd>" in part(page, "known")
    assert UNNAMED not in page
    assert "an audit of all that the lane lets through" in part(page, "would-hold")
    assert "3 pull requests: 1 settled, 1 turned out bad." in part(page, "budget")
    assert address in ben.get("/incidents").content.decode()
    site.after(10)
    site.work()
    assert address in ben.get(f"/history/{NEXT}").content.decode()
    assert part(ben.get(address).content.decode(), "known") == part(page, "known")
    assert "(1 open)" in ben.get("/").content.decode()
    ben.post("/incidents/handle", {"key": address.rpartition("/")[2], "conclusion": "Fixed since"})
    assert "(1 open)" not in ben.get("/").content.decode()


@pytest.mark.parametrize("what", ["it only watched", "another round was merged", "the audit drew it"])
def test_what_the_open_lane_did_not_let_through_as_it_was_merged_opens_none(
    site: ActingSite, ben: Client, what: str
) -> None:
    with site.result.store.write() as txn:
        if what == "it only watched":
            txn.execute(
                "insert into shadow_rounds select pull_uri, coalesce(round, 0), coalesce(patch_id, ''), repository_id, "
                "as_of, 'open', null from current_decisions where pull_uri = ?",
                [NEXT],
            )
        elif what == "the audit drew it":
            txn.execute("update audit_draws set drawn = true where pull_uri = ?", [NEXT])
        else:
            txn.execute("update pull_requests set round = round + 1 where pull_uri = ?", [NEXT])
    site.publish()
    if what != "it only watched":
        assert site.result.value("select count(*) from waved_through where pull_uri = ?", [NEXT])
    site.merge(NEXT)
    Action.objects.all().delete()
    made = mark(site, ben, version=0)
    assert made == "/", what


def test_it_shows_what_was_known_then_and_not_what_is_known_now(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    frames = Later(MERGED_AT + 21 * DAY)
    frames.vouch("did:plc:" + "7" * 24, MARA, "denounce")
    feed(site.result, frames)
    ben.post("/lane/close", {"repo_key": REPO, "because": "meanwhile"})
    site.work()
    assert lanes(site)[NEXT] == "normal_queue"
    known = part(ben.get(mark(site, ben)).content.decode(), "known")
    assert "<dd>Fast lane</dd>" in known
    assert "60 %, 95 % interval" in known
    assert "from 1 settled pull request<" in known
    assert "risk 1 %" in known
    assert "The fast lane is closed" not in known


def test_what_was_known_then_stays_when_the_mark_takes_effect_and_the_lane_is_closed(
    site: ActingSite, ben: Client
) -> None:
    """The stream's clock stands all along: what is decided later is as old as the approval."""
    set_maintainer(site.result.store, BEN, REPO, True)  # whose marks count
    site.work()
    approve(site, ben)
    ben.post("/act", site.form("outcome", OFFERED, outcome="reverted", patch_id=""))
    site.after(10)
    hidden = {"repo_key": REPO, "author": MARA, "scope": "author", "because": "we look into it"}
    assert ben.post("/lane/close", hidden).status_code == 302
    site.work()
    sql = "select lane, probability, as_of from scores where pull_uri = ? order by data_version"
    later = site.result.rows(sql, [NEXT])[-1]
    (saw,) = site.result.rows("select s.* from scores s join approvals a on s.score_id = a.decision")
    assert (saw["lane"], later["lane"], later["as_of"]) == ("fast_lane", "normal_queue", saw["as_of"])
    assert later["probability"] < saw["probability"], "what she sent before was reverted"
    address = mark(site, ben)
    known = part(ben.get(address).content.decode(), "known")
    assert "<dd>Fast lane</dd>" in known
    assert "60 %, 95 % interval" in known
    assert "from 1 settled pull request<" in known
    assert UNNAMED not in known
    site.after(10)
    site.work()
    page = ben.get(address).content.decode()
    assert part(page, "known") == known
    assert "It was not in the fast lane." not in page
    assert "3 pull requests: 1 settled, 1 turned out bad." in part(page, "budget")


def test_an_approval_of_an_older_version_says_that_the_newest_decision_by_then_is_shown(
    site: ActingSite, ben: Client
) -> None:
    frames = Later(MERGED_AT + 21 * DAY)
    frames.vouch("did:plc:" + "7" * 24, MARA, "denounce")
    approve(site, ben)
    with site.result.store.write() as txn:
        txn.execute("update approvals set decision = null")
    feed(site.result, frames)
    ben.post("/lane/close", {"repo_key": REPO, "because": "meanwhile"})
    site.work()
    known = part(ben.get(mark(site, ben)).content.decode(), "known")
    assert UNNAMED in known
    assert "<dd>Fast lane</dd>" in known, "the lane was closed after the approval"


def test_each_single_rule_that_would_have_held_it_is_named(page: str) -> None:
    held = part(page, "would-hold")
    for words in (
        "a lane that starts above its chance of 60 % (the setting was 60 %)",
        "an audit of all that the lane lets through (it drew 0 %)",
        "the sensitive tier",
        "a.py in the list “Always need a person”",
        "a demand for a certified threshold",
    ):
        assert words in held
    assert "separate way" not in held, "that was asked for"
    assert "content risk" not in held, "its 1 % lies below that of any finding"


def test_everything_like_it_is_listed_the_nearest_first(page: str) -> None:
    alike = part(page, "like-it")
    assert "same author: 1, same voucher: 2, same files: 1, same model: 2" in alike
    more, other = alike.index("Paint the fence"), alike.index("&lt;b&gt;Sweep&lt;/b&gt; the yard")
    assert more < other
    assert "same author, same voucher, same model" in alike[more:other]
    assert "same voucher, same files, same model" in alike[other:]
    assert "open, approved" in alike[other:]


def test_the_budget_counts_this_one_before_the_mark_took_effect(page: str) -> None:
    told = "So far this lane let through 3 pull requests: 1 settled, 1 turned out bad. That is too few to judge"
    assert f"{told} against the limit of 5 % that the lane had" in part(page, "budget")


def test_what_was_fast_laned_more_than_thirty_days_ago_is_not_listed(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    frames = Later(MERGED_AT + 21 * DAY)
    frames.status(SEED, MORE, "closed")
    feed(site.result, frames)
    frames = Later(MERGED_AT + 55 * DAY)
    frames.pull(MARA, "late", title="Much later")
    feed(site.result, frames)
    settle(site.result.store)
    site.work()
    assert "Paint the fence" not in part(ben.get(mark(site, ben)).content.decode(), "like-it")


def test_one_that_a_person_approved_from_another_lane_says_what_had_held_it(site: ActingSite, ben: Client) -> None:
    ben.post("/lane/close", {"repo_key": REPO, "because": "we look into it"})
    site.work()
    approve(site, ben)
    page = ben.get(mark(site, ben)).content.decode()
    assert "It was not in the fast lane." in part(page, "would-hold")
    assert "The fast lane is closed in this repository; " in part(page, "known")
    assert "It did not go through the fast lane" in part(page, "budget")


def test_the_budget_that_an_opening_named_is_told_as_the_interval_that_it_ends() -> None:
    """As "4.2 to 22.9 % needed work" on the lane's own page."""
    told = budget_words(BudgetState(40, 10, 1, 0.228284, datetime(2026, 10, 31)))
    assert told.startswith("Since 31 Oct 2026 this lane let through 40 pull requests: 10 settled, 1 turned out bad.")
    assert "10.0 % of what settled, within the limit of 22.9 %" in told


MANY = """
insert into pull_requests select * exclude (i) replace ('at://' || $did || '/many/' || i as pull_uri, 'merged' as state)
from pull_requests, range($many) t(i) where pull_uri = $uri;
insert into touched_files select * exclude (i) replace ('at://' || $did || '/many/' || i as pull_uri)
from touched_files, range($many) t(i) where pull_uri = $uri;
insert into scores select * exclude (i) replace ('many' || i as score_id, 'at://' || $did || '/many/' || i as pull_uri)
from (select * from scores where pull_uri = $uri and lane = 'fast_lane' limit 1), range($many) t(i);
insert into scores select * exclude (i) replace ('person' || i as score_id)
from (select * from scores where pull_uri is null limit 1), range($many * 20) t(i)
"""


def test_from_the_mark_to_the_closed_lane_and_the_list_takes_under_five_seconds(
    site: ActingSite, ben: Client, count: Callable[[int, int], int], prove: bool
) -> None:
    """With 100 others fast-laned in those days and 2,000 scores of people.

    Fifty times that under PROVE=1, where the seconds are measured.
    """
    approve(site, ben)
    with site.result.store.write() as txn:
        values = {"uri": NEXT, "many": count(100, 5_000), "did": MARA}
        for statement in MANY.split(";"):
            txn.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})
    site.publish()
    with ends_by_itself(5 if prove else LONG_SECONDS):
        address = mark(site, ben)
        listed = ben.get(address).content.decode()
        assert f"same author: {count(100, 5_000) + 1:,}" in listed
        closed = ben.post("/lane/close", {"repo_key": REPO, "because": "it broke the build", "next": address})
        assert closed["Location"] == address
        assert 'class="pill fast"' not in ben.get("/").content.decode()
        site.work()
    assert lanes(site)[MORE] == "normal_queue"


def test_each_button_of_the_incident_closes_what_it_says(site: ActingSite, ben: Client, page: str) -> None:
    form = part(page, "close")
    assert form.count('name="because"') == 1, "the reason is typed once"
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    buttons = re.findall(r'name="scope" value="(\w+)"', form)
    assert buttons == ["repository", "author", "voucher"], "ben maintains one repository, so not everywhere"
    for scope in buttons:
        assert ben.post("/lane/close", {**hidden, "scope": scope, "because": scope}).status_code == 302
    closed = {one.because: (one.repo_key, one.author, one.voucher) for one in LaneClosure.objects.all()}
    assert closed == {"repository": (REPO, "", ""), "author": (REPO, MARA, ""), "voucher": (REPO, "", SEED)}
    forged = [ben.post("/lane/close", {**hidden, "scope": one, "because": "x"}) for one in ("everywhere", "site")]
    assert [answer.status_code for answer in forged] == [403, 400]
    assert LaneClosure.objects.count() == 3


def test_a_correction_is_told_and_both_marks_are_kept(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    address = mark(site, ben)
    mark(site, ben, version=2, outcome="clean")
    assert "marked it as clean since. Both marks are kept." in ben.get(address).content.decode()


def test_a_mark_of_an_older_version_on_what_was_never_merged_opens_no_incident_and_counts_nowhere(
    site: ActingSite, ben: Client
) -> None:
    set_maintainer(site.result.store, BEN, REPO, True)  # whose marks count
    approve(site, ben)
    approve(site, ben, OTHER)
    form = site.form("note", NEXT, 1, note="it broke the build")
    ben.post("/act", form)
    Action.objects.filter(kind="note").update(kind="outcome", outcome="reverted")
    told = OutboxEntry.objects.latest("pk")
    told.payload |= {"kind": "outcome", "outcome": "reverted"}
    told.save()
    site.after(11)
    assert site.work() == 1
    key = Action.objects.latest("pk").key
    answer = ben.get(f"/incident/{key}")
    assert (answer.status_code, "was not merged" in answer.content.decode()) == (404, True)
    assert key not in ben.get(f"/history/{NEXT}").content.decode()
    assert site.result.value("select count(*) from marks") == 0
    page = ben.get(mark(site, ben, OTHER)).content.decode()
    assert "3 pull requests: 1 settled, 1 turned out bad." in part(page, "budget"), "only the merged one"


def test_an_undone_mark_has_no_incident(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    address = mark(site, ben)
    site.after(2)
    ben.post("/act/undo", {"key": address.rpartition("/")[2]})
    assert ben.get(address).status_code == 404


def test_only_maintainers_of_the_repository_see_an_incident(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    address = mark(site, ben)
    answer = Client().get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=%2Fincident%2F")
    viewer = signed_in(Person.objects.create(did="did:plc:" + "4" * 24))
    elsewhere = site.maintainer("did:plc:" + "5" * 24, "eve.example", "did:plc:" + "6" * 24)
    assert [client.get(address).status_code for client in (viewer, elsewhere)] == [403, 403]
    assert ben.get("/incident/" + "0" * 32).status_code == 404
    assert ben.get(f"/history/{NEXT}").content.decode().count("/incident/") == 0, "it takes effect in ten seconds"
    site.after(10)
    site.work()
    assert address in ben.get(f"/history/{NEXT}").content.decode()
    assert address not in Client().get(f"/history/{NEXT}").content.decode()


def test_hostile_words_are_shown_and_never_obeyed(site: ActingSite, ben: Client) -> None:
    approve(site, ben)
    site.merge(NEXT)
    form = site.form("outcome", NEXT, 1, outcome="needed_fix", note=HOSTILE)
    page = ben.get(ben.post("/act", form)["Location"]).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ⟨U+202E⟩gnp" in page
    assert "<script>alert" not in page


def test_an_approval_of_a_later_round_is_not_blamed_on_the_decision_of_an_earlier_one(
    site: ActingSite, ben: Client
) -> None:
    frames = Later(MERGED_AT + 21 * DAY)
    frames.pull(MARA, "next", "update", blobs=["bafkrei" + letter * 52 for letter in "ab"], title="Mend the gate")
    feed(site.result, frames)
    offer(site.result, CLEAN.replace("a.py", ".github/workflows/a.yml"), NEXT, "blob:two")
    end_lookups(site.result)
    site.result.review()
    site.work()
    approve(site, ben)
    known = part(ben.get(mark(site, ben)).content.decode(), "known")
    assert "Fast lane" not in known
    assert "round 2" in known


def test_the_commit_that_marked_a_merge_is_named_with_how_to_undo_it(site: ActingSite, ben: Client) -> None:
    with site.result.store.write() as txn:
        row = {"pull_uri": NEXT, "kind": "reverted", "evidence": "1f0c" * 10, "carried_by": None}
        txn.append("pull_followups", [{**row, "happened_at": MERGED_AT, "known_from": MERGED_AT}])
    site.publish()
    told = "Found on the target branch: <bdi>reverted by commit 1f0c1f0c1f0c</bdi>."
    approve(site, ben)
    site.merge(NEXT)
    page = ben.get(f"/history/{NEXT}").content.decode()
    assert f"{told} If that is wrong, save the outcome “clean” below. The mark then counts." in page
    assert (
        f"{told} If that is wrong, a maintainer can mark it clean" in Client().get(f"/history/{NEXT}").content.decode()
    )
    form = site.form("outcome", NEXT, 1, outcome="reverted")
    assert told in ben.post("/act", form, follow=True).content.decode()
