"""The graph hears only what others had made known by the opening, and nothing that its author emits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scoring.dataset.cases import Cases, Vouches
from scoring.graph.neighbours import FACTS, find_neighbours
from tests.scoring.dataset.people import NEVER, made_up
from tests.scoring.graph.nets import DAY, SETTINGS, added, drawn_net, heard_keys, odds_at, place_of, vouches_of
from tests.scoring.graph.nets import with_columns as columns_of

Attack = Callable[[Cases], tuple[Cases, Vouches]]
TARGET = 900
HOUR = np.timedelta64(1, "h")
SYBILS = tuple(range(5_000, 5_008))


@pytest.fixture(scope="module", name="cases")
def cases_fixture() -> Cases:
    return columns_of(made_up())


def test_a_merge_by_others_is_heard_from_the_moment_after_it_and_never_before() -> None:
    cases = made_up(60, authors=2)
    target = 40
    same = np.flatnonzero(
        (cases.authors == cases.authors[target]) & (np.arange(60) < target) & ~np.isnat(cases.merged_at)
    )
    merge = int(same[0])
    for moment, is_heard in (
        (cases.opened_at[target], False),
        (cases.opened_at[target] - np.timedelta64(1, "us"), True),
    ):
        times = cases.merged_at.copy()
        times[merge] = moment
        neighbours = find_neighbours(replace(cases, merged_at=times), Vouches(), 30, settled=False)
        assert (merge in neighbours.authored.rows[target]) is is_heard


def test_nothing_that_happens_after_an_opening_changes_what_is_heard_or_known_there(cases: Cases) -> None:
    now = cases.opened_at[TARGET]
    times = {
        name: np.where(getattr(cases, name) >= now, NEVER, getattr(cases, name))
        for name in ("merged_at", "refused_at", "reverted_at", "patched_at", "patched_fix_at", "failed_at")
    }
    full, cut = (
        find_neighbours(one, Vouches(), 8, settled=True).first(TARGET + 1) for one in (cases, replace(cases, **times))
    )
    for before, after in zip(full, cut, strict=True):
        assert np.array_equal(before.rows[TARGET], after.rows[TARGET])
        assert np.array_equal(before.facts[TARGET], after.facts[TARGET])


def test_a_revert_is_known_of_a_neighbour_only_once_it_happened(cases: Cases) -> None:
    rows = find_neighbours(cases, Vouches(), 8, settled=False).authored.rows[:, 0]
    target = int(np.flatnonzero(rows >= 0)[100])
    for moment, is_known in ((cases.opened_at[target], 0.0), (cases.opened_at[target] - HOUR, 1.0)):
        reverted = cases.reverted_at.copy()
        reverted[rows[target]] = moment
        found = find_neighbours(replace(cases, reverted_at=reverted), Vouches(), 8, settled=False)
        assert found.authored.facts[target, 0, FACTS.index("reverted")] == is_known


def test_a_repository_hears_the_last_merges_of_others_and_none_of_the_author(cases: Cases) -> None:
    found = find_neighbours(cases, Vouches(), 8, settled=False)
    for target in range(300, 1_200, 50):
        rows = found.hosted.rows[target]
        assert (cases.authors[rows[rows >= 0]] != cases.authors[target]).all()
        merged = (cases.repositories == cases.repositories[target]) & (cases.merged_at < cases.opened_at[target])
        others = np.flatnonzero(merged & (cases.authors != cases.authors[target]))
        last = others[np.argsort(cases.merged_at[others])][::-1][:8]
        assert rows.tolist() == [*last.tolist(), *[-1] * (8 - len(last))]


def free_pulls(cases: Cases) -> tuple[Cases, Vouches]:
    """The author opens thirty pull requests; some are left for so long that they count as refused."""
    author, repository, now = cases.authors[TARGET], cases.repositories[TARGET], cases.opened_at[TARGET]
    rows = [
        {"authors": author, "repositories": repository, "opened_at": now - (200 + each) * DAY, "refused_at": now - DAY}
        for each in range(15)
    ]
    rows += [{"authors": author, "repositories": repository, "opened_at": now - each * DAY} for each in range(1, 16)]
    return added(cases, rows), Vouches()


def free_pulls_of_sybils(cases: Cases) -> tuple[Cases, Vouches]:
    repository, now = cases.repositories[TARGET], cases.opened_at[TARGET]
    rows = [
        {"authors": sybil, "repositories": repository, "opened_at": now - (190 + each) * DAY, "refused_at": now - DAY}
        for sybil in SYBILS
        for each in range(5)
    ]
    return added(cases, rows), Vouches()


def free_vouches(cases: Cases) -> tuple[Cases, Vouches]:
    """The author vouches for sybils, they for the author, and for each other; the author denounces everybody else."""
    author, circle = int(cases.authors[TARGET]), (int(cases.authors[TARGET]), *SYBILS)
    pairs = [(one, other, True) for one in circle for other in circle if one != other]
    pairs += [(author, int(other), False) for other in np.unique(cases.authors) if other != author]
    return cases, vouches_of(pairs, cases.opened_at[TARGET] - 30 * DAY)


def fake_repository(cases: Cases) -> tuple[Cases, Vouches]:
    """Sybils send each other's changes to a repository of their own, and vouch for the author. A repository whose owner
    nobody trusts counts nowhere (`counting` of derived.sql): nothing there is known to be merged."""
    now = cases.opened_at[TARGET]
    rows = [
        {"authors": sybil, "repositories": 777, "opened_at": now - (40 + each) * DAY}
        for sybil in (*SYBILS, int(cases.authors[TARGET]))
        for each in range(4)
    ]
    pairs = [(sybil, int(cases.authors[TARGET]), True) for sybil in SYBILS]
    return added(cases, rows), vouches_of(pairs, now - 30 * DAY)


ATTACKS: tuple[Attack, ...] = (free_pulls, free_pulls_of_sybils, free_vouches, fake_repository)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("seed", range(3))
def test_no_free_move_changes_what_is_heard_of_its_author_or_their_chance_whatever_was_learned(
    cases: Cases, attack: Attack, seed: int
) -> None:
    key = str(cases.keys[TARGET])
    quiet = drawn_net(cases, Vouches(), seed)
    moved, vouches = attack(cases)
    net = drawn_net(moved, vouches, seed, quiet.scales_)
    place = place_of(moved, key)
    assert heard_keys(moved, net, place) == heard_keys(cases, quiet, TARGET)
    assert odds_at(net, moved, place) == pytest.approx(odds_at(quiet, cases, TARGET), abs=1e-5)


def test_a_vouch_by_somebody_with_merged_work_is_heard_while_it_stands(cases: Cases) -> None:
    now = cases.opened_at[TARGET]
    voucher = int(cases.authors[int(np.flatnonzero(cases.merged_at < now - 100 * DAY)[0])])
    author = int(cases.authors[TARGET])
    assert voucher != author
    standing = vouches_of([(voucher, author, True)], now - DAY)
    heard = find_neighbours(cases, standing, SETTINGS.most, settled=False).vouched.rows[TARGET]
    assert cases.authors[heard[0]] == voucher
    assert (heard[1:] == -1).all()
    ended = replace(standing, until=np.full(1, now - HOUR))
    assert (find_neighbours(cases, ended, SETTINGS.most, settled=False).vouched.rows[TARGET] == -1).all()
    assert odds_at(drawn_net(cases, standing), cases, TARGET) != odds_at(drawn_net(cases, Vouches()), cases, TARGET)
