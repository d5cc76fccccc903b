"""An account that does not stand is shown to nobody and vouches for nobody, until it stands again."""

import pytest

from scoring.queries import read
from tests.ingest.stream.frames import ANA, MALLORY, MARA, SEED, Frames, pull_uri
from tests.pipeline import Result
from tests.scoring.small import feed, settled, take


def world() -> Frames:
    frames = settled()
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MALLORY)
    frames.pull(ANA, "second")
    return frames


def shown(result: Result) -> set[str]:
    """DIDs in the leaderboard."""
    with result.reading() as rows:
        return {row.person.did for row in read.leaderboard(rows, "score", True, 1).rows}


def set_account(result: Result, **account: object) -> None:
    frames = Frames([b"{}"] * 100)
    frames.account(ANA, **account)
    feed(result, frames[100:])
    result.judge()


def later(result: Result, **account: object) -> None:
    frames = Frames([b"{}"] * 200)
    frames.account(ANA, **account)
    feed(result, frames[200:])
    result.judge()


@pytest.mark.parametrize("status", ["deactivated", "takendown", "suspended", "deleted"])
def test_a_hidden_account_is_nowhere_and_its_vouches_do_not_count(result: Result, status: str) -> None:
    take(result, world())
    before = result.score(MALLORY).structural_trust
    assert before > 0
    assert result.pull(pull_uri(ANA, "second")) is not None
    set_account(result, active=False, status=status)
    assert ANA not in shown(result)
    assert result.pull(pull_uri(ANA, "second")) is None
    assert result.score(MALLORY).structural_trust == 0
    with result.reading() as rows:
        assert read.score(rows, ANA) is None
        assert read.contributor(rows, ANA) is None
        page = read.contributor(rows, MALLORY)
        assert page is not None
        assert page.vouches == ()
        assert read.hidden_because(rows, ANA)
        assert read.hidden_because(rows, MARA) is None
        assert read.hidden_among(rows, [MARA, ANA]) == {ANA: read.hidden_because(rows, ANA)}


def test_everything_is_back_when_the_account_is(result: Result) -> None:
    take(result, world())
    before = (result.score(ANA).structural_trust, result.score(MALLORY).structural_trust, shown(result))
    set_account(result, active=False, status="deactivated")
    later(result, active=True)
    after = (result.score(ANA).structural_trust, result.score(MALLORY).structural_trust, shown(result))
    assert after[2] == before[2]
    assert after[0] == pytest.approx(before[0], abs=1e-4)  # vouches age
    assert after[1] == pytest.approx(before[1], abs=1e-4)  # vouches age
    assert result.pull(pull_uri(ANA, "second")) is not None


def test_a_hidden_persons_settled_pull_requests_still_count_for_others(result: Result) -> None:
    take(result, world())
    labels = result.value("select count(*) from labels")
    set_account(result, active=False, status="deactivated")
    assert result.value("select count(*) from labels") == labels


def test_an_account_in_a_state_of_the_relay_only_is_not_hidden(result: Result) -> None:
    take(result, world())
    set_account(result, active=False, status="desynchronized")
    assert ANA in shown(result)
