"""Slices of trust hold what was seen before their moment, by the same computation as the scoring pass."""

from datetime import timedelta
from pathlib import Path

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.dataset.past_trust import build_slices
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, Frames, at
from tests.pipeline import opened

SLICES = """
select as_of, structural_trust, eigentrust, distance from trust_slices join contributors using (contributor_id)
where did = ? and repository_id = 0 order by as_of
"""
STANDS = """
select structural_trust, eigentrust, distance from trust join contributors using (contributor_id)
where did = ? and repository_id = 0
"""
LATER = at(0) + timedelta(days=75)


def test_a_slice_is_the_trust_of_its_moment_and_the_newest_one_that_which_stands(tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, MARA)
    frames.pull(MARA, "offered")
    with opened(tmp_path) as result:
        result.take(frames)
        result.watch([REPO], [SEED])
        result.judge(LATER)
        with result.store.read() as rows:
            assert build_slices(rows, LATER, Policy()) == 4
            of_ana, of_mara = of(rows, ANA), of(rows, MARA)
            assert build_slices(rows, at(1), Policy()) == 1
            assert of(rows, MARA) == []
        stands = [tuple(result.rows(STANDS, [did])[0].values()) for did in (ANA, MARA)]
    assert [of_ana[-1], of_mara[-1]] == stands
    assert len(of_mara) == 4
    assert [row[0] for row in of_ana] == sorted([row[0] for row in of_ana], reverse=True)  # a vouch fades


def of(rows: Rows, did: str) -> list[tuple[float, ...]]:
    """Trust, share and distance of this person, slice by slice."""
    return [tuple(list(row.values())[1:]) for row in rows.rows(SLICES, [did])]
