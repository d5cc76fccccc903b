"""The demo as a process that loses nobody's files, and its promises, each of which can be broken."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.config.policy import Policy, policy_from_settings
from scoring.queries import read
from scoring.queries.people import trust
from scoring.queries.people.trust import SeedView
from scoring.thresholds import Thresholds
from tests.conftest import PROVE, Manage, Site, simulated_network
from tests.pipeline import Result
from triage.models import Maintainer
from trustsite import drive
from trustsite.demo import recorded
from trustsite.demo.recorded import Month, open_account
from trustsite.demo.story import CAUGHT, NAMED, NAMED_PACKAGE, OPENED, VOIDED, WATCHED, WENT_WRONG, promises, tell
from trustsite.management.commands import demo
from trustsite.world import World, build_world
from trustsite.world.history import LOOKS


def test_a_demo_is_refused_where_its_folder_holds_somebodys_files(manage: Manage, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    letter = tmp_path / "demo" / "letter.txt"
    letter.write_text("mine")
    result = manage("demo", "--check", DATA_ROOT=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "holds files that Sunstead did not put there" in result.stderr
    assert result.stderr.count("\n") == 1
    assert letter.read_text() == "mine"


def test_what_the_demos_maintainer_does_is_judged_before_the_stream_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def note(words: str) -> Callable[..., None]:
        return lambda *given, **named: done.append(words)

    for name in ("open_lane", "act", "answer_audits"):
        monkeypatch.setattr(recorded, name, note("acts"))
    monkeypatch.setattr(recorded, "wait_until_settled", note("waits"))
    peers: Any = SimpleNamespace(release=note("goes on"))
    person: Any = None
    worker: Any = None
    Month(worker, peers, build_world(), person).play()
    assert done.count("goes on") == LOOKS
    assert "acts" in done
    steps = " ".join(word for word in done)
    assert "acts goes on" not in steps
    assert "goes on acts" not in steps


def test_what_was_open_when_the_lane_opened_went_through_it_before_it_was_merged(site: Site) -> None:
    with site.snapshot() as rows:
        opened = rows.value("select min(known_from) from estimated_lanes")
        assert rows.value("select count(*) from waved_through where as_of = ?", [opened]) == 2
        assert rows.value("select count(*) - count(distinct pull_uri) from waved_through") == 0, "each once"


@pytest.fixture(name="told")
def told_fixture(demo_folder: Path) -> dict[str, Any]:
    """What was seen of a second demo, of the first beside it, and of the one that came after its kill."""
    return json.loads((demo_folder.parent / "told.json").read_text())


def test_a_second_demo_is_refused_and_the_first_goes_on_with_all_it_has(told: dict[str, Any]) -> None:
    status, out, err = told["second"]
    assert (status, out) == (2, "")
    assert "Another demo runs in" in err
    assert err.count("\n") == 1
    assert told["goes_on"]


def test_a_demo_starts_from_nothing_after_one_that_was_killed(demo_folder: Path, told: dict[str, Any]) -> None:
    assert "kept    the swapped patch has a decision of its own" in told["check"], "the last of its stages was judged"
    assert not (demo_folder / "left").exists()


def test_an_operators_own_threshold_is_not_that_of_the_demo(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    found: list[Thresholds] = []
    monkeypatch.setattr(demo, "call_command", lambda *_, **__: None)
    monkeypatch.setattr(demo, "open_worker", lambda *_: None)
    monkeypatch.setattr(demo, "run_beside", lambda *_: found.append(policy_from_settings().thresholds))
    # The fixture puts back what the demo sets after these.
    settings.T_HIGH, settings.FALSE_APPROVAL_BUDGET, settings.AUDIT_KEY = 0.85, 0.05, settings.AUDIT_KEY
    settings.ASK_ADVISORIES, settings.ASK_REGISTRIES = False, False
    demo.Command()._start(check=True)
    assert [(one.t_high, one.budget) for one in found] == [(None, demo.DEMO_BUDGET)]


@pytest.mark.django_db
def test_the_demos_maintainer_maintains_on_the_site_what_is_watched() -> None:
    for _ in range(2):
        open_account("did:plc:ana", ["did:plc:one", "did:plc:two"])
    found = Maintainer.objects.values_list("person__did", "repo_key").order_by("repo_key")
    assert list(found) == [("did:plc:ana", "did:plc:one"), ("did:plc:ana", "did:plc:two")]


@pytest.fixture(scope="module")
def world() -> World:
    """The simulated network."""
    return simulated_network()


@pytest.fixture(scope="module")
def ended(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """A copy of the store at the demo's end, opened: no test leaves anything in it."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(demo_folder / "duckdb", folder, dirs_exist_ok=True)
    store = Store.open(folder / "trust.duckdb")
    yield Result(store, folder)
    store.close()


@pytest.fixture(scope="module")
def before(ended: Result, world: World) -> read.QueueRow:
    """The swapped pull request as it was judged before, as far as the approval of it tells."""
    (uri,) = world.pulls["swapped"]
    now = ended.pull(uri)
    assert now is not None
    (seen,) = ended.rows("select record_cid, patch_id from approvals where pull_uri = ?", [uri])
    return replace(now, **seen)


def test_three_people_prove_what_is_theirs_elsewhere_and_one_repository_links_an_upstream(
    ended: Result, world: World
) -> None:
    with ended.reading() as rows:
        pages = {name: read.contributor(rows, world.cast[name]) for name in ("mara", "noor", "sami")}
        upstreams = {name: read.upstream_facts(rows, key) for name, key in world.watched.items()}
    proofs = {name: {signal.proof for signal in page.signals} for name, page in pages.items() if page}
    assert {name: {"handle", "signed", "read"} <= found for name, found in proofs.items()} == dict.fromkeys(pages, True)
    assert "mutual" in proofs["mara"]
    assert pages["noor"] is not None
    (npm,) = [signal for signal in pages["noor"].signals if signal.said_by == "npm"]
    assert re.fullmatch(r"npm: 1 package since 20\d\d, newest \w{3} 20\d\d, 1,840 downloads a week", npm.what)
    assert npm.evidence == "https://www.npmjs.com/~noor"
    told = {name: [signal.said_by for signal in found] for name, found in upstreams.items() if found}
    assert told == {"lantern": ["scorecard.dev", "GitHub"]}


class Undone(Exception):
    """Takes a transaction back."""


THEM = "(select contributor_id from contributors where did = $did)"
DENOUNCED = """'[{"code": "denounced_by_seed", "params": {}}]'"""
STURDY = "at least one pull request is fast-laned, by a trust path that no single account can end"
BY_REVIEWER = "at least one goes to a human, with the reviewer's reason"
SHADOW = "only the main repository is out of shadow mode"
SEVERAL = "at least 10 contributors have a chance from pull requests of their own"
SELF_MARKED = "a self-marked merge gives neither trust nor a record"
DENOUNCER = "the lone denouncer moved nobody to a human"
# What breaks each promise: its words, whom the statement is about, and the statement.
BREACHES = [
    (STURDY, "ana", "delete from trust"),
    (STURDY, "ana", "update current_decisions set lane = 'normal_queue' where lane = 'fast_lane'"),
    (STURDY, "ana", "delete from seeds"),
    (NAMED, "ana", "update current_decisions set lane = 'normal_queue' where lane = 'fast_lane'"),
    (
        NAMED,
        "ana",
        "update current_decisions set reasons = replace(reasons, 'threshold_estimated', 'threshold_of_old') "
        "where lane = 'fast_lane'",
    ),
    (BY_REVIEWER, "ana", "update current_decisions set lane = 'normal_queue' where lane = 'needs_human'"),
    (
        BY_REVIEWER,
        "ana",
        "update current_decisions set lane = 'normal_queue' where regexp_matches(reasons, 'high_flag|content_risk')",
    ),
    (VOIDED, "switcher", "delete from approvals"),
    (VOIDED, "teo", f"update maintainer_actions set actor_id = {THEM}"),
    (VOIDED, "switcher", f"update current_decisions set lane = 'fast_lane' where contributor_id = {THEM}"),
    (
        VOIDED,
        "switcher",
        "update current_decisions set reasons = replace(reasons, 'approved_before', 'own_pull_request') "
        f"where contributor_id = {THEM}",
    ),
    (SHADOW, "ana", "update repository_settings set shadow = true"),
    (
        SHADOW,
        "ana",
        "insert into repository_settings by name select w.repository_id, s.* exclude (repository_id) "
        "from watched_repositories w, repository_settings s where w.repository_id <> s.repository_id",
    ),
    (OPENED, "ana", "delete from estimated_lanes"),
    (OPENED, "ana", "delete from audits"),
    (OPENED, "ana", "update current_decisions set thresholds = json_merge_patch(thresholds, '{\"t_high\": null}')"),
    (WATCHED, "ana", "update shadow_days set closed = 0"),
    (WATCHED, "ana", "update shadow_days set would = still_open"),
    (WATCHED, "ana", "delete from shadow_days where day < (select max(day) from shadow_days) - interval 19 day"),
    (WATCHED, "ana", "delete from marks"),
    (WENT_WRONG, "ana", "update approvals set decision = null"),
    (WENT_WRONG, "ana", "update scores set lane = 'normal_queue'"),
    (WENT_WRONG, "ana", "delete from maintainer_actions where kind = 'outcome'"),
    (SEVERAL, "ana", "update current_scores set cases = 0"),
    (
        "no attacker is in the fast lane",
        "mallory",
        f"update current_decisions set lane = 'fast_lane' where contributor_id = {THEM}",
    ),
    (
        "the ring holds less trust than one vouch of a seed",
        "mallory",
        f"update trust set first_passage = 0.2 where contributor_id = {THEM}",
    ),
    *(
        (words, name, f"update current_scores set {change} where contributor_id = {THEM}")
        for words, name in (
            ("a self-vouch gives neither trust nor a record", "narcis"),
            ("a mutual vouch gives neither trust nor a record", "castor"),
            (SELF_MARKED, "selma"),
        )
        for change in ("structural_trust = 0.01", "probability = 0.6, cases = 1", "cases = 1")
        if name == "selma" or change != "cases = 1"
    ),
    (SELF_MARKED, "selma", f"update pull_requests set merge_proof = 'verified' where author_id = {THEM}"),
    (
        SELF_MARKED,
        "selma",
        "insert into labels select pull_uri, author_id, repository_id, false, seen_at from pull_requests "
        f"where author_id = {THEM} limit 1",
    ),
    (
        "the self-marked pull requests are still open",
        "selma",
        f"update pull_requests set state = 'merged' where author_id = {THEM}",
    ),
    (DENOUNCER, "mara", f"update current_scores set reasons = {DENOUNCED} where contributor_id = {THEM}"),
    (DENOUNCER, "alba", f"update current_decisions set reasons = {DENOUNCED} where contributor_id = {THEM}"),
    (DENOUNCER, "mara", f"update current_scores set lane = 'needs_human' where contributor_id = {THEM}"),
    (DENOUNCER, "mara", f"update current_scores set structural_trust = 0.5 where contributor_id = {THEM}"),
    (DENOUNCER, "grudge", f"delete from vouches where voucher_id = {THEM}"),
    (
        "the swapped patch has a decision of its own",
        "switcher",
        "update current_decisions d set record_cid = s.record_cid, patch_id = s.patch_id from scores s "
        f"where s.pull_uri = d.pull_uri and d.contributor_id = {THEM} and s.patch_id <> d.patch_id",
    ),
    (CAUGHT, "mara", "update current_decisions set lane = 'fast_lane'"),
    (CAUGHT, "mara", "delete from content_reviews where contains(findings, 'addressed')"),
    (
        NAMED_PACKAGE,
        "drifter",
        f"update current_decisions set lane = 'normal_queue' where contributor_id = {THEM}",
    ),
    (NAMED_PACKAGE, "drifter", "update content_reviews set findings = replace(findings, '12 downloads', 'downloads')"),
    (
        "the content of every open pull request was read",
        "mara",
        "update current_decisions set content_risk = null where lane = 'normal_queue'",
    ),
    ("everybody was scored", "mara", f"delete from current_scores where contributor_id = {THEM}"),
]

FIRST_BREACHES = list({breach[0]: breach for breach in reversed(BREACHES)}.values())  # one of each promise


@pytest.fixture
def prior(settings: Settings) -> None:
    """The setting that promises compare with is the one that the store was judged by."""
    settings.PRIOR_CLEAN_RATE = Policy().prior


@pytest.fixture
def worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a seed set makes of everybody is kept for a test, as for a snapshot: it takes a third of the time."""
    kept: dict[int, SeedView | None] = {}
    work_out = trust._seed_view

    def once(rows: Rows, number: int, policy: Policy) -> SeedView | None:
        if number not in kept:
            kept[number] = work_out(rows, number, policy)
        return kept[number]

    monkeypatch.setattr(trust, "_seed_view", once)


@pytest.mark.usefixtures("prior", "worked_out_once")
def test_every_promise_holds_and_has_a_breach_below(ended: Result, world: World, before: read.QueueRow) -> None:
    with ended.reading() as rows:
        told = tell(rows, world, before)[1]
        assert promises(rows, world, before) == told
    assert len({promise.words for promise in told}) == len(told)
    assert {promise.words: promise.kept for promise in told} == dict.fromkeys((words for words, _, _ in BREACHES), True)


@pytest.mark.usefixtures("prior", "worked_out_once")
@pytest.mark.parametrize(("words", "name", "statement"), BREACHES if PROVE else FIRST_BREACHES)
def test_a_promise_that_does_not_hold_is_told_as_broken(
    ended: Result, world: World, before: read.QueueRow, words: str, name: str, statement: str
) -> None:
    with suppress(Undone), ended.store.write() as transaction:
        transaction.execute(statement.replace("$did", f"'{world.cast[name]}'"))
        kept = {promise.words: promise.kept for promise in promises(transaction, world, before)}
        assert len(kept) == len({words for words, _, _ in BREACHES})
        assert kept[words] is False
        raise Undone


def test_only_a_folder_that_sunstead_made_is_emptied(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("")
    drive.empty(folder)
    (folder / "link").symlink_to(elsewhere)
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("")
    drive.empty(folder)
    assert [path.name for path in folder.iterdir()] == [drive.MADE]
    assert (elsewhere / "kept").exists()
    with pytest.raises(drive.DriveProblem, match="did not put there"):
        drive.empty(elsewhere)
    assert (elsewhere / "kept").exists()
    with pytest.raises(drive.DriveProblem, match="is not a folder"):
        drive.empty(elsewhere / "kept")


def test_the_demos_spindle_says_green_red_and_nothing(site: Site) -> None:
    store = Store.open(site.folder / "duckdb" / "trust.duckdb")
    with store.read() as rows:
        states = {row["state"] for row in rows.rows("select distinct state from ci_runs")}
    store.close()
    assert states == {"passed", "failed", "never_ran"}
