"""A decision that is kept from the last pass is the one that would be made anew."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import scoring.pipeline.score
from ingest.erasure.erase import erase
from ingest.store.database import Store
from scoring.config.policy import AuditRules
from scoring.config.repository import DEFAULTS
from scoring.handlers.settings import write_settings
from scoring.pipeline.score import CHANGED_PEOPLE
from tests.conftest import Count
from tests.ingest.erasure.planted import KEY, folders_below
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import OPEN_LANE, Result
from tests.scoring.offered import end_lookups
from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round, learn, offered_world
from tests.scoring.pipeline.test_passes import NOW, check_full_pass_changes_nothing, close_lane, objects, open_lane
from tests.scoring.small import DAY, OFFERED, again
from tests.scoring.trust.test_structure import world

OPEN_AT = NOW + 20 * DAY
AUDITED = replace(OPEN_LANE, audit=AuditRules(share=0.5, per_day=0, first=1))


@pytest.fixture(name="decided")
def decided_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the pull requests that were decided anew."""
    decide_pull, decided = scoring.pipeline.score.decide_pull, list[str]()

    def noted(scoring_pass: Any, basis: Any) -> dict[str, Any]:
        decided.append(basis.pull["pull_uri"])
        return decide_pull(scoring_pass, basis)

    monkeypatch.setattr(scoring.pipeline.score, "decide_pull", noted)
    return decided


def say(result: Result, voucher: str, subject: str, kind: str = "vouch") -> None:
    frames = world((voucher, subject))
    frames.vouch(voucher, subject, "update", kind=kind)
    learn(result, frames)


def test_a_pass_decides_anew_only_where_something_that_a_decision_rests_on_changed(
    tmp_path: Path, decided: list[str]
) -> None:
    with offered_world(tmp_path) as result:
        decided.clear()
        again(result, NOW)
        assert sorted(decided) == sorted([OFFERED, SECOND, THIRD]), "a process begins"
        steps: tuple[tuple[str, Callable[[], object], list[str]], ...] = (
            ("an hour", lambda: None, []),
            ("a vouch by a stranger", lambda: say(result, STRANGER, MALLORY), []),
            ("a vouch for an author", lambda: say(result, SEED, MARA), [OFFERED]),
            ("a round", lambda: a_new_round(result), [OFFERED]),
            ("a closed lane", lambda: close_lane(result), [OFFERED]),
            ("an objection", lambda: objects("open")(result), [OFFERED]),
        )
        for hours, (what, change, expected) in enumerate(steps, 1):
            decided.clear()
            change()
            again(result, NOW + timedelta(hours=hours))
            assert decided == expected, what
            assert result.rows("select distinct as_of from current_decisions") == [
                {"as_of": NOW + timedelta(hours=hours)}
            ]


def test_after_a_pass_that_failed_everything_is_decided_anew(
    tmp_path: Path, decided: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise OSError("no room")

    with offered_world(tmp_path) as result:
        again(result, NOW)
        with monkeypatch.context() as failing:
            failing.setattr(scoring.pipeline.score, "_replace_decisions", fail)
            with pytest.raises(OSError, match="no room"):
                again(result, NOW)
        decided.clear()
        result.judge(NOW)
        assert len(decided) == 3
        check_full_pass_changes_nothing(result)


def test_after_an_erasure_everything_is_decided_anew(tmp_path: Path, decided: list[str]) -> None:
    """It strikes a name from stored decisions, too."""
    with offered_world(tmp_path):
        pass
    store = Store.open(tmp_path / "trust.duckdb", key=KEY)
    result = Result(store, tmp_path)
    say(result, STRANGER, MALLORY)
    again(result, NOW)
    decided.clear()
    erase(store, STRANGER, "by_request", NOW, folders_below(tmp_path))
    again(result, NOW)
    assert len(decided) == 3
    erase(store, ANA, "by_request", NOW, folders_below(tmp_path))
    again(result, NOW)
    assert result.rows("select pull_uri from current_decisions") == [{"pull_uri": OFFERED}]
    check_full_pass_changes_nothing(result)
    store.close()


def test_an_audit_is_drawn_once_and_its_result_stays(tmp_path: Path) -> None:
    with offered_world(tmp_path) as result:
        open_for_the_trusted(result)
        again(result, OPEN_AT)
        drawn = result.rows("from audit_draws order by all")
        assert drawn
        for hours in range(1, 4):
            again(result, OPEN_AT + timedelta(hours=hours))
            check_full_pass_changes_nothing(result, OPEN_AT + timedelta(hours=hours))
        assert result.rows("from audit_draws order by all") == drawn


def open_for_the_trusted(result: Result) -> None:
    """Both authors are trusted and had a clean merge, and the lane is open at OPEN_AT but for the audit."""
    result.policy, frames = AUDITED, world((SEED, MARA), (SEED, ANA))
    for author in (MARA, ANA):
        frames.pull(author, "merged")
        frames.status(SEED, pull_uri(author, "merged"), "merged")
    learn(result, frames)
    end_lookups(result)
    result.review()


def change_settings(result: Result, draw: random.Random) -> None:
    version = result.value("select coalesce(max(version), 0) from repository_settings") + 1
    choices = {
        "budget": draw.choice([0.02, 0.2]),
        "shadow": draw.random() < 0.3,
        "tier": draw.choice(["public", "core"]),
    }
    write_settings(result.store, REPO, replace(DEFAULTS, version=version, **choices), NOW)


def settle_one(result: Result, draw: random.Random) -> None:
    frames = Frames()
    frames.status(SEED, draw.choice([SECOND, THIRD]), draw.choice(["open", "closed", "merged"]), str(draw.random()))
    learn(result, frames)


def send(result: Result, draw: random.Random) -> None:
    frames, author = Frames(), draw.choice([MALLORY, ANA, STRANGER])
    frames.pull(author, f"pull{draw.randrange(10**9)}")
    learn(result, frames)
    end_lookups(result)


def fail_once(result: Result, draw: random.Random) -> None:
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(scoring.pipeline.score, "append_draws", fail)
        with pytest.raises(OSError, match="no room"):
            again(result, NOW)


def fail(*given: object) -> None:
    raise OSError("no room")


HISTORY: tuple[Callable[[Result, random.Random], object], ...] = (
    lambda result, draw: say(result, *draw.sample([SEED, ANA, MARA, MALLORY], 2)),
    lambda result, draw: say(result, *draw.sample([SEED, ANA, MARA, MALLORY], 2), kind="denounce"),
    lambda result, draw: a_new_round(result, rounds=draw.choice([1, 2])),
    lambda result, draw: close_lane(result),
    lambda result, draw: open_lane(result),
    lambda result, draw: objects(draw.choice(["open", "rejected"]))(result),
    lambda result, draw: result.review(),
    change_settings,
    settle_one,
    send,
    fail_once,
    lambda result, draw: CHANGED_PEOPLE.pop(result.store, None),
)


def test_after_any_history_every_decision_is_the_one_that_a_new_process_makes(tmp_path: Path, count: Count) -> None:
    draw, now = random.Random(27), OPEN_AT
    with offered_world(tmp_path) as result:
        open_for_the_trusted(result)
        again(result, now)
        for _ in range(count(6, 100)):
            for change in draw.sample(HISTORY, draw.randint(1, 2)):
                change(result, draw)
            now += draw.choice([timedelta(hours=1), DAY, 20 * DAY])
            again(result, now)
            check_full_pass_changes_nothing(result, now)
        assert result.value("select count(*) from audit_draws") > 0
