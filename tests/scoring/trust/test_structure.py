"""Trust as rows: whom it reaches, by whose word, and that the order of arrival says nothing."""

from pathlib import Path

import pytest

from ingest.store import transaction
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames
from tests.pipeline import Result, opened
from tests.scoring.small import settled, take


def world(*vouches: tuple[str, str]) -> Frames:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for voucher, subject in vouches:
        frames.vouch(voucher, subject)
    return frames


def trust(result: Result) -> dict[str, tuple[float, int | None, list[str]]]:
    dids = {row["contributor_id"]: row["did"] for row in result.rows("select contributor_id, did from contributors")}
    rows = result.rows("from trust where repository_id > 0")
    return {
        dids[row["contributor_id"]]: (row["structural_trust"], row["distance"], [dids[one] for one in row["path"]])
        for row in rows
    }


def test_trust_names_the_path_from_the_seed(result: Result) -> None:
    take(result, world((SEED, ANA), (ANA, MARA)))
    found = trust(result)
    assert found[SEED] == (1.0, 0, [SEED])
    assert found[MARA][1:] == (2, [SEED, ANA, MARA])
    assert 0 < found[MARA][0] < found[ANA][0] < 1
    assert [person.did for person in result.score(MARA, REPO).path] == [SEED, ANA, MARA]


def test_who_is_not_reached_has_no_row(result: Result) -> None:
    take(result, world((SEED, ANA), (MALLORY, MALLORY), (MALLORY, STRANGER), (STRANGER, MALLORY)))
    assert set(trust(result)) == {SEED, ANA}
    assert result.score(MALLORY).structural_trust == 0


def test_a_vouch_that_was_taken_back_carries_nothing(result: Result) -> None:
    frames = world((SEED, ANA))
    frames.delete(SEED, "sh.tangled.graph.vouch", ANA)
    take(result, frames)
    assert set(trust(result)) == {SEED}


def test_a_seeds_denounce_takes_all_trust_and_a_denounce_of_a_seed_nothing(result: Result) -> None:
    frames = world((SEED, ANA), (ANA, MARA))
    frames.vouch(SEED, MARA, kind="denounce")
    frames.vouch(ANA, SEED, kind="denounce")
    take(result, frames)
    assert trust(result)[MARA][0] == 0
    assert trust(result)[SEED][0] == 1
    assert result.score(ANA, REPO).structural_trust > 0.89, "a denounce is not transitive"


@pytest.mark.parametrize("order", [(ANA, MARA), (MARA, ANA)])
def test_equal_paths_are_told_apart_by_did_and_not_by_arrival(result: Result, order: tuple[str, str]) -> None:
    frames = world(*((SEED, middle) for middle in order), *((middle, MALLORY) for middle in order))
    take(result, frames, now=None)
    assert trust(result)[MALLORY][2] == [SEED, ANA, MALLORY]


def test_trust_is_the_same_in_however_small_groups_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames(settled("open"))
    frames.vouch(SEED, MARA)
    later = Frames(frames)
    later.vouch(MARA, ANA)
    told = []
    for rows, folder in ((1, tmp_path / "small"), (100_000, tmp_path / "large")):
        monkeypatch.setattr(transaction, "GROUP_ROWS", rows)
        folder.mkdir()
        with opened(folder) as result:
            take(result, frames)
            take(result, later)
            told.append(result.rows("from trust order by repository_id, contributor_id"))
    assert told[0] == told[1]
    assert len({row["repository_id"] for row in told[0]}) == 2
