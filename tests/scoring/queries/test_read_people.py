"""People on pages: the leaderboard, somebody's own page, and the ways that trust takes to them."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

import pytest

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.queries import read
from scoring.queries.people import contributors
from scoring.queries.people.trust import read_trust
from scoring.queries.queue import KEY
from scoring.queries.types import LeaderboardSort
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import Result
from tests.scoring.small import again, take
from triage.presenters.queue.rows import upstream_lines
from trustsite.world import World


@pytest.mark.parametrize("sort", get_args(LeaderboardSort))
@pytest.mark.parametrize("descending", [True, False])
def test_the_leaderboard_is_in_order_and_its_pages_hold_everybody_once(
    played: Result, world: World, sort: LeaderboardSort, descending: bool
) -> None:
    with played.reading() as rows:
        first = read.leaderboard(rows, sort, descending, 1)
        lines = [
            line for page in range(1, first.pages + 1) for line in read.leaderboard(rows, sort, descending, page).rows
        ]
        assert read.leaderboard(rows, sort, descending, 10**6).page == first.pages
        assert read.leaderboard(rows, sort, descending, -5).page == 1
    assert sorted(line.person.did for line in lines) == sorted(world.cast.values())
    values = {
        "score": [line.verdict.estimate.probability for line in lines],
        "merged": [line.merged for line in lines],
        "reverts": [line.reverts for line in lines],
        "hops": [line.distance for line in lines],
    }[sort]
    apart = [[], []] if sort == "score" else [[]]  # by score, who has too few settled comes after all others
    for line, value in zip(lines, values, strict=True):
        apart[line.provisional and sort == "score"].append(value)
    for part in apart:
        known = [value for value in part if value is not None]
        assert known == sorted(known, reverse=descending)
        assert part[: len(known)] == known, "who has no value comes last either way"
    assert values == [value for part in apart for value in part]
    ranked = [line for line, value in zip(lines, values, strict=True) if value is not None and not line.provisional]
    told = [value for line, value in zip(lines, values, strict=True) if value is not None and not line.provisional]
    told = [float(int(100 * value + 1e-9) if sort == "score" else value) for value in told]
    assert [line.rank for line in ranked] == [told.index(value) + 1 for value in told], "equal numbers share a rank"
    others = [line.rank for line in lines if line not in ranked]
    assert (bool(others), set(others)) == (True, {None}), "nobody has a rank below five settled, or without a number"
    assert all(line.provisional == (line.verdict.estimate.cases < 5) for line in lines)
    if sort == "score" and descending:
        with played.reading() as rows:
            places = {line.person.did: read.place_of(rows, line.person.did) for line in lines}
            assert read.place_of(rows, "did:plc:nobody") is None
            first, *rest = ranked
            beyond = [line for line in rest if line.rank != 1]
            moved = read.place_of(rows, beyond[0].person.did, [first.person.did])
        assert places == {line.person.did: (line.rank, line.verdict.estimate.cases) for line in lines}
        assert moved == ((beyond[0].rank or 0) - 1, beyond[0].verdict.estimate.cases), "a hidden one counts no more"


def test_a_place_asks_for_settled_changes_of_ones_own_whatever_stands_behind_a_models_chance(result: Result) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one")
    take(result, frames)
    result.judge()
    with result.store.write() as txn:
        txn.execute("update current_scores set probability = 0.75, cases = 43")
    with result.reading() as rows:
        found = read.leaderboard(rows, "score", True, 1).rows
        place = read.place_of(rows, MARA)
    assert [(line.rank, line.provisional) for line in found] == [(None, True)] * len(found)
    assert (len(found) > 0, place) == (True, (None, 0))


def test_a_contributors_page_tells_the_same_as_the_score(played: Result, world: World) -> None:
    for name in ("mara", "ruben", "alba", "blitz", "mallory"):
        with played.reading() as rows:
            page = read.contributor(rows, world.cast[name])
        assert page is not None
        assert page.score == played.score(world.cast[name])
        assert [one.repository for one in page.per_repository] == sorted(
            one.repository or "" for one in page.per_repository
        )
        watched = [played.score(world.cast[name], key) for key in world.watched.values()]
        assert all(one in watched for one in page.per_repository)
        assert page.history[-1].lane is page.score.verdict.lane
    with played.reading() as rows:
        page = read.contributor(rows, world.cast["alba"])
    assert page is not None
    assert not page.vouches, "a stranger's denounce is not shown"
    counted = dict(page.stored)
    assert counted.keys().isdisjoint({"vouches received", "warnings received"}), "nor counted as a vouch"


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (((SEED, "merged"),), "merged, not counted yet"),
        (((MARA, "merged"),), "open; author says merged, unconfirmed"),
        (((SEED, "closed"),), "not merged"),
        (
            ((SEED, "closed"), (MARA, "merged")),
            "not merged; author says merged, but a maintainer or the repository says not",
        ),
    ],
)
def test_a_claim_without_proof_is_told_as_one(result: Result, words: tuple[tuple[str, str], ...], outcome: str) -> None:
    frames, offered = Frames(), pull_uri(MARA, "offered")
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "offered")
    for actor, word in words:
        frames.status(actor, offered, word)
    take(result, frames)
    with result.reading() as rows:
        page, row = read.contributor(rows, MARA), read.pull(rows, offered)
    assert page is not None
    assert [line.outcome for line in page.pulls] == [outcome]
    if row is not None:
        assert outcome == f"open; {row.claim}"


@pytest.mark.parametrize("name", ["mara", "mallory"])
def test_each_vouch_of_a_path_has_its_weight_and_the_paths_share_nobody_but_seeds(
    played: Result, world: World, name: str
) -> None:
    with played.reading() as rows:
        found = read.explain_trust(rows, world.cast[name], None, played.policy)
    assert found is not None
    assert found.paths
    assert [len(weights) for weights in found.weights] == [len(path) - 1 for path in found.paths]
    assert all(0 < weight <= 1 for weights in found.weights for weight in weights)
    between = [person.did for path in found.paths for person in path[1:-1]]
    assert len(between) == len(set(between))


def test_an_open_pull_request_is_flagged_with_its_person_where_it_is_in_the_inbox(played: Result) -> None:
    with played.reading() as rows:
        flagged = rows.rows(
            "select c.pull_uri as uri, a.did from current_decisions c join contributors a using (contributor_id) "
            f"join pull_requests p using (pull_uri) where {KEY} = 'needs_human' and p.state = 'open'"
        )
        pages = {row["did"]: read.contributor(rows, row["did"]) for row in flagged}
    assert flagged
    for row in flagged:
        page = pages[row["did"]]
        assert page is not None
        assert next(line for line in page.pulls if line.uri == row["uri"]).flagged
    lines = [line for page in pages.values() if page for line in page.pulls]
    assert {line.uri for line in lines if line.flagged} == {row["uri"] for row in flagged}


def test_the_record_counts_every_pull_request_once_by_what_came_of_it(played: Result, world: World) -> None:
    with played.reading() as rows:
        page = read.contributor(rows, world.cast["mara"])
        total = rows.value(
            "select count(*) from pull_requests join contributors on author_id = contributor_id where did = ?",
            [world.cast["mara"]],
        )
    assert page is not None
    assert page.record.total == total
    shown = [line.result for line in page.pulls]
    assert len(shown) == min(total, 100)
    if total <= 100:
        assert {result: shown.count(result) for result in set(shown)} == dict(page.record.results)
    assert all(line.result == "open" for line in page.pulls if line.state == "open")


def test_a_ring_is_seen_by_its_vouches_in_return_and_its_own_merges_are_called_elsewhere(
    played: Result, world: World
) -> None:
    with played.reading() as rows:
        page, honest = (read.contributor(rows, world.cast[name]) for name in ("mallory-3", "lotte"))
    assert page is not None
    assert len(page.vouches) == 11
    assert all(vouch.mutual for vouch in page.vouches)
    assert page.record.results["outside"] > 0
    assert "watching" not in page.record.results, "nobody here waits for what becomes of them"
    assert honest is not None
    assert not any(vouch.mutual for vouch in honest.vouches)


def test_what_one_more_bad_change_would_do_is_told_only_where_the_counts_decide(played: Result, world: World) -> None:
    score = played.score(world.cast["mara"])
    after, worse = (read.estimate_after(score, count, played.policy) for count in (1, 2))
    assert after is not None
    assert worse is not None
    assert after.probability is not None
    assert score.verdict.estimate.probability is not None
    assert worse.probability is not None
    assert score.verdict.estimate.probability > after.probability > worse.probability
    target = score.verdict.estimate.probability + 0.01
    more = read.clean_to_reach(score, target, played.policy)
    assert more
    assert read.clean_to_reach(score, score.verdict.estimate.probability, played.policy) == 0
    trained = replace(score, model_version="a-model")
    assert read.estimate_after(trained, 1, played.policy) is None
    assert read.clean_to_reach(trained, target, played.policy) is None


def test_a_contributor_shows_signals_and_a_handle_that_is_not_confirmed_is_only_declared(
    played: Result, world: World
) -> None:
    with played.reading() as rows:
        proven, drifter = (read.contributor(rows, world.cast[name]) for name in ("mara", "drifter"))
    assert proven is not None
    assert drifter is not None
    assert [one.proof for one in proven.signals if one.what.startswith("Handle")] == ["handle"]
    assert "handle" not in [one.proof for one in drifter.signals]


DECLARED = """
insert into signals (subject, source, key, value, observed_at, known_from, expires_at, evidence_uri, declared_by)
values (?, ?, ?, ?, now(), now(), ?, ?, null)
"""
CLAIMED = """
insert into account_claims (uri, author_id, type, subject, claim_uri, status, written_at, seen_at, changed_at)
select ?, contributor_id, 'github', 'ana', ?, 'verified', now(), now(), now() from contributors where did = ?
"""
WEB = "did:web:famous.example.org"
GIST, CRATES = "https://gist.github.com/ana/1", "https://crates.io/users/ana"


def test_what_is_known_of_a_person_names_who_said_so_and_how_it_is_proven(result: Result) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one")
    frames.commit(MARA, "sh.tangled.actor.profile", "self", {"links": ["https://github.com/ana", "https://a.example/"]})
    take(result, frames)
    uri, later = f"at://{MARA}/dev.keytrace.claim/1", datetime(2099, 1, 1)
    facts = [
        ("keytrace", "github:ana", SEED, later, uri),
        ("link", "https://a.example/", "mutual", later, "https://a.example/"),
        ("link", "https://github.com/ana", "claimed", later, None),
        *(("crates.io", key, value, later, CRATES) for key, value in CRATES_SAYS.items()),
        ("repository", "collections", "3", later, "https://pds.example.test/"),
    ]
    with result.store.write() as txn:
        txn.execute(CLAIMED, [uri, GIST, MARA])
        for fact in facts:
            txn.execute(DECLARED, [MARA, *fact])
    result.judge()
    with result.reading() as rows:
        page = read.contributor(rows, MARA)
    assert page is not None
    told = [(one.what, one.proof, one.said_by, one.evidence) for one in page.signals]
    crates = "crates.io: 2 packages since 2021, newest May 2026, 560 downloads in all"
    signer = next(one.said_by for one in page.signals if one.proof == "signed")
    assert told == [
        ("GitHub ana", "signed", signer, GIST),
        ("a.example", "mutual", "a.example", "https://a.example/"),
        (crates, "read", "crates.io", CRATES),
        ("Records of 3 services", "read", "their data server", "https://pds.example.test/"),
        ("github.com/ana", "declared", "", None),
    ]
    assert signer.startswith("did:plc:")
    with result.store.write() as txn:
        txn.execute("update account_claims set subject = 'torvalds', changed_at = now()")
    with result.reading() as rows:
        page = read.contributor(rows, MARA)
    assert page is not None
    assert "signed" not in {one.proof for one in page.signals}
    rewritten = [one.proof for one in page.signals if one.what == "GitHub torvalds"]
    assert rewritten == ["declared"], "its old proof, not withdrawn yet, does not cover the new words"
    with result.store.write() as txn:
        txn.execute("delete from signals")
    with result.reading() as rows:
        page = read.contributor(rows, MARA)
    assert page is not None
    assert {one.proof for one in page.signals} == {"declared"}, "a claim that nobody proves is only claimed"
    assert ("GitHub torvalds", GIST) in {(one.what, one.evidence) for one in page.signals}


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "http://gist.example/",
        "https://keytrace.dev@evil.example/",
        "https://[bad",
        "https:///x",
        "",
        "https://a.example/\u202e1",
        "https://a.example/\x07",
    ],
)
def test_an_address_that_a_page_may_not_link_is_no_evidence(result: Result, address: str) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    take(result, frames)
    with result.store.write() as txn:
        txn.execute(CLAIMED, [f"at://{MARA}/dev.keytrace.claim/1", address, MARA])
    with result.reading() as rows:
        page = read.contributor(rows, MARA)
    assert page is not None
    assert [(one.what, one.evidence) for one in page.signals] == [("GitHub ana", None)]


def test_a_domain_that_is_a_did_counts_as_proven_once_it_has_answered(result: Result) -> None:
    def domains() -> list[tuple[str, str]]:
        with result.reading() as rows:
            page = read.contributor(rows, WEB)
        assert page is not None
        return [(one.what, one.proof) for one in page.signals]

    frames = Frames()
    frames.pull(WEB, "one")
    take(result, frames)
    assert domains() == []
    with result.store.write() as txn:
        txn.execute("update contributors set pds = 'https://pds.example.test' where did = ?", [WEB])
    assert domains() == [("Domain famous.example.org", "handle")]


UPSTREAM = {
    ("scorecard", "score"): "6.4",
    ("scorecard", "scored_at"): "2026-11-16T00:00:00",
    ("github", "archived"): "true",
    ("github", "pushed_at"): "2026-11-07T08:00:00",
    ("github", "stars"): "1",
    ("github", "open_issues"): "1400",
}


def test_what_is_known_of_an_upstream_names_who_said_so(result: Result) -> None:
    pages = {
        "scorecard": "https://scorecard.dev/viewer/?uri=github.com/ana/lamp",
        "github": "https://github.com/ana/lamp",
    }
    with result.store.write() as txn:
        for (source, key), value in UPSTREAM.items():
            txn.execute(DECLARED, [REPO, source, key, value, None, pages[source]])
    with result.reading() as rows:
        told, nothing = read.upstream_facts(rows, REPO), read.upstream_facts(rows, SEED)
    health = "ana/lamp: archived, last push 7 Nov 2026, 1 star, 1,400 open issues and pull requests"
    assert [(one.what, one.proof, one.said_by, one.evidence) for one in told] == [
        ("OpenSSF Scorecard 6.4 of 10, 16 Nov 2026", "read", "scorecard.dev", pages["scorecard"]),
        (health, "read", "GitHub", pages["github"]),
    ]
    assert upstream_lines(told) == (
        ("Upstream", f"OpenSSF Scorecard 6.4 of 10, 16 Nov 2026, says scorecard.dev; {health}, says GitHub"),
    )
    assert (nothing, upstream_lines(nothing)) == ((), ())


CRATES_SAYS = {"packages": "2", "since": "2021-02-03T00:00:00", "newest": "2026-05-06T00:00:00", "downloads": "560"}


def heard(result: Result, viewer: str | None) -> set[str]:
    """Whose denounces of mallory this viewer is shown."""
    with result.reading() as rows:
        page = read.contributor(rows, MALLORY, viewer, result.policy)
    assert page is not None
    return {line.person.did for line in page.vouches if line.kind == "denounce"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """About how many people trust was computed, one entry for each seed set."""
    numbers = list[int]()

    def count(rows: Rows, repository: int, people: Collection[int], policy: Policy) -> dict[int, dict[str, Any]]:
        numbers.append(len(people))
        return read_trust(rows, repository, people, policy)

    monkeypatch.setattr(contributors, "read_trust", count)
    return numbers


def hold_push(result: Result, did: str) -> None:
    """Let this person push to every repository, and judge anew."""
    with result.store.write() as txn:
        txn.execute(
            "insert into push_holders select r.repository_id, c.contributor_id, 'collaborator', 'knot', null, null "
            "from repositories r, contributors c where c.did = ?",
            [did],
        )
    again(result)


def test_a_denounce_by_whom_the_viewers_sets_do_not_trust_costs_four_of_them_however_many_there_are(
    result: Result, asked: list[int]
) -> None:
    frames, sheds = Frames(), ["did:plc:" + str(number) * 24 for number in range(2, 9)]
    for shed in sheds:
        frames.repository(SEED, shed[-4:], repoDid=shed)
    frames.vouch(SEED, ANA)
    for voucher in (STRANGER, ANA, SEED):
        frames.vouch(voucher, MALLORY, kind="denounce")
    result.take(frames)
    result.watch(sheds, [SEED])
    result.judge()
    assert result.value("select count(*) from seeds") == len(sheds) + 1, "seed's, and the site's"
    assert heard(result, SEED) == {ANA, SEED}
    assert asked == [1] * 4, "nothing is computed about ana and seed, of whom the store knows"
    asked.clear()
    assert heard(result, STRANGER) == {STRANGER}
    assert heard(result, MALLORY) == heard(result, None) == set()
    assert not asked, "a viewer who is not a seed costs nothing"


@pytest.mark.parametrize(("viewer", "hears"), [(SEED, {ANA}), (MARA, {ANA}), (STRANGER, set())])
def test_a_denounce_by_whom_only_a_repositorys_own_set_trusts_is_heard_by_its_seeds(
    result: Result, viewer: str, hears: set[str]
) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.vouch(MARA, ANA)
    frames.vouch(STRANGER, MARA)
    frames.vouch(ANA, MALLORY, kind="denounce")
    take(result, frames)
    hold_push(result, MARA)
    assert not result.rows("from trust join contributors using (contributor_id) where did = ?", [ANA])
    assert heard(result, viewer) == hears


def test_a_crowd_that_denounces_drowns_nobody_whom_the_site_trusts(result: Result, asked: list[int]) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for number in range(110):
        frames.vouch("did:plc:" + f"crowd{number}".ljust(24, "a"), MALLORY, kind="denounce")
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MALLORY, kind="denounce")
    frames.vouch(STRANGER, MARA)
    take(result, frames)
    hold_push(result, MARA)
    assert heard(result, MARA) == {ANA}
    assert asked == [100]
