"""Questions about a few people read only what is around them, and trust of the past is read in slices."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.dataset.dataset import (
    NAMES,
    VISIBLE_ROWS,
    build_cases,
    build_slices,
    load_current_trust,
    only_around,
    read_cases,
    read_features,
)
from scoring.types import Pair
from tests.conftest import count
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, Frames, at
from tests.pipeline import opened
from tests.scoring.dataset.past_projects import day
from tests.stores import fresh_store

NOW, WINDOW_DAYS = day(400), 14
CLOSE = 1e-12  # relative: faded counts of other rows are added in another order, whole ones are equal
PEOPLE, PULLS = 12, 240
REPOSITORIES = (1, 2, 3, 4)
# Of twelve people and four repositories, one of which counts by the trust in its owner and one of which does not count,
# with whatever a pull request can have; half of the imported ones are of repositories and people that are known here.
WORLD = f"""
create temp macro drawn(row, salt) as (hash(row, salt) % 1000) / 1000;

insert into contributors by name
select 'did:plc:p' || i as did, i as contributor_id, false as handle_verified, 'active' as account_status,
  timestamp '2024-01-01' + to_days(i) as did_created_at
from range(1, {PEOPLE + 1}) t(i);

insert into repositories by name
select 'did:plc:r' || i as repo_key, i as repository_id, i as owner_id from range(1, 5) t(i);
insert into repository_aliases values ('known', 2);
insert into seeds values (0, 1, 'owner'), (0, 2, 'owner'), (2, 2, 'owner');
insert into push_holders values (1, 1, 'owner', 'owner', null, null),
  (1, 5, 'collaborator', 'knot', '2025-03-01', null);

insert into trust by name
select repository_id, i as contributor_id, drawn(i, 1) as first_passage,
  case when i = 3 then .8 else drawn(i, 2) / 2 end as
  structural_trust, drawn(i, 3) as eigentrust, 1 as distance, [] as path, [] as path_merges,
  false as denounced_by_seed,
  i % 3 as trusted_denouncers, 0 as denounce_weight, 1 as keep
from range(3, {PEOPLE - 1}) t(i), (values (0), (2)) s(repository_id);
insert into vouches by name
select '[]' as evidences, 1 as voucher_id, 3 as subject_id, 'vouch' as kind, timestamp '2025-01-01' as seen_at,
  timestamp '2025-01-01' as written_at, 1 as event_seq;

insert into pull_requests by name
select 'at://' || i as pull_uri, 1 + (drawn(i, 4) * {PEOPLE - 1})::integer as author_id,
  1 + (drawn(i, 5) * 3)::integer as repository_id, 'fix: a thing' as title, '' as body, 'flat' as record_form,
  0 as round, 1 as round_count, 'blob:' || i as patch_ref,
  timestamp '2025-01-01' + to_hours((drawn(i, 6) * 8000)::bigint)
  as opened_at, opened_at as seen_at, opened_at as changed_at, 'open' as state
from range({PULLS}) t(i);
insert into pull_rounds by name
select pull_uri, 0 as round, patch_ref, seen_at, true as witnessed from pull_requests
union all by name
select pull_uri, 1 as round, 'blob:later' as patch_ref, seen_at + interval 1 day as seen_at, true as witnessed
from pull_requests where drawn(pull_uri, 7) < .3;
insert into patches by name
select pull_uri, patch_ref, 'p' as patch_id, 9 as bytes, 2 as files, (drawn(pull_uri, 8) * 99)::integer as added,
  3 as removed,
  'read' as state, true as proves, [] as series, [] as change_ids
from pull_rounds;
insert into fetches by name
select 'patch' as kind, pull_uri || ' ' || patch_ref as subject, 'found' as outcome, 1 as attempts,
  seen_at + interval 1 minute as fetched_clock from pull_rounds;
insert into touched_files
select pull_uri, patch_ref, [], ['docs/a.md', 'tests/' || pull_uri],
  true from pull_rounds where drawn(pull_uri, 9) < .7;
insert into statuses by name
select pull_uri || '/s' as status_uri, pull_uri, 1 as actor_id,
  case when drawn(pull_uri, 10) < .6 then 'merged' else 'closed' end
  as status, false as back_written, seen_at + to_hours((drawn(pull_uri, 11) * 900)::bigint) as written_at,
  written_at as seen_at,
  case when drawn(pull_uri, 12) < .9 then 'push_holder' else 'author_push_holder' end as authority, 1 as event_seq
from pull_requests where drawn(pull_uri, 13) < .8;
insert into landings by name
select pull_uri, 'c' as commit_id, 'main' as branch, 0 as round, seen_at + interval 9 day as landed_at,
  'patch_id' as proof, drawn(pull_uri, 14) < .5 as proven
from pull_requests where drawn(pull_uri, 15) < .3;
insert into pull_followups by name
select pull_uri, case when drawn(pull_uri, 16) < .5 then 'patched' else 'reverted' end as kind,
  seen_at + interval 30 day as happened_at, happened_at as known_from, 'c' as evidence
from pull_requests where drawn(pull_uri, 17) < .3;
insert into ci_runs by name
select pull_uri, patch_ref, 'c' as commit_id,
  case when drawn(pull_uri, 18) < .5 then 'passed' else 'failed' end as state,
  '[]' as workflows, seen_at + interval 1 hour as observed_at
from pull_rounds where drawn(pull_uri, 19) < .5;
insert into comments by name
select pull_uri || '/c' as uri, 1 as author_id, 'pull' as form, pull_uri as subject_uri, repeat('x', 40) as body,
  seen_at + interval 1 day as written_at, written_at as seen_at, written_at as changed_at
from pull_requests where drawn(pull_uri, 20) < .5;
insert into signals by name
select did as subject, source, key,
  case when key = 'created_at' then did_created_at::varchar else (1 + contributor_id)::varchar end as value,
  did_created_at + interval 400 day as
  observed_at, observed_at as known_from
from contributors, (values ('bluesky', 'followers'), ('bluesky', 'follows'), ('bluesky', 'created_at'),
  ('plc', 'handle_changes'), ('plc', 'pds_moves')) s(source, key);

insert into imported_pulls by name
select 'file' as source, case when i % 2 = 0 then 'known' else 'other' || i % 3 end as repository, i as number,
  -1 - i % 3 as repository_id, case when drawn(i, 21) < .5 then 1 + i % {PEOPLE} else -1 - i % 7 end as author_id,
  timestamp '2024-06-01' + to_hours((drawn(i, 22) * 9000)::bigint) as opened_at,
  timestamp '2025-12-01' as observed_until,
  'merged' as state,
  case when drawn(i, 23) < .7 then opened_at + to_hours((drawn(i, 24) * 500)::bigint) end as merged_at,
  case when merged_at is null then opened_at + interval 99 day end as refused_at,
  case when drawn(i, 25) < .2 then merged_at + interval 5 day end as patched_at, drawn(i, 26) < .5 as checks_known,
  -1 as as_sent, drawn(i, 27) < .1 as push_holder, drawn(i, 28) < .1 as is_bot, drawn(i, 29) < .9 as usable,
  (drawn(i, 30) * 500)::bigint as additions, 7 as deletions, 2 as files_touched
from range({PULLS}) t(i);
"""
ABOUT = st.sets(st.tuples(st.integers(1, PEOPLE), st.sampled_from((0, *REPOSITORIES))), min_size=1, max_size=4)
Told = tuple[dict[str, np.ndarray], dict[Pair | str, int]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    """A cursor of a store in which everything is known of somebody."""
    store = fresh_store(tmp_path_factory.mktemp("around") / "trust.duckdb")
    with store.write() as txn:
        for statement in WORLD.split(";\n"):
            if statement.strip():
                txn.execute(statement)
    with store.read() as found:
        yield found
    store.close()


@pytest.fixture(scope="module")
def whole(rows: Rows) -> Told:
    """The features of everybody, and of every change, from the whole store."""
    build_cases(rows, NOW, WINDOW_DAYS)
    everybody = [(author, repository) for author in range(1, PEOPLE + 1) for repository in (0, *REPOSITORIES)]
    changes = [row["pull_uri"] for row in rows.rows("select pull_uri from pull_requests")]
    return asked(rows, everybody, changes)


def asked(rows: Rows, people: Sequence[Pair], changes: Sequence[str]) -> Told:
    build_cases(rows, NOW, WINDOW_DAYS)
    load_current_trust(rows)
    return read_features(rows, people, changes, NOW)


def test_the_world_of_these_tests_tells_something_of_every_person(whole: Told) -> None:
    columns, _ = whole
    silent = {name for name in NAMES if not np.isfinite(columns[name]).any()}
    assert silent == {"binary_files"}


@settings(max_examples=count(4, 300))
@given(people=ABOUT)
def test_asking_about_a_few_gives_what_the_whole_store_gives_of_them(
    rows: Rows, whole: Told, people: set[Pair]
) -> None:
    authors, repositories = [[pair[side] for pair in people] for side in (0, 1)]
    changes = [
        row["pull_uri"]
        for row in rows.rows(
            "select pull_uri from pull_requests where author_id in (select unnest($authors)) "
            "and repository_id in (select unnest($repositories)) order by pull_uri limit 20",
            {"authors": authors, "repositories": repositories},
        )
    ]
    with only_around(rows, people):
        columns, places = asked(rows, sorted(people), changes)
    assert set(places) == {*people, *(one for one in changes if one in whole[1])}
    here, there = list(places.values()), [whole[1][one] for one in places]
    for name in NAMES:
        assert np.allclose(columns[name][here], whole[0][name][there], rtol=CLOSE, atol=0, equal_nan=True), name


def test_what_others_did_elsewhere_is_not_even_read(rows: Rows) -> None:
    with only_around(rows, [(7, 2)]):
        build_cases(rows, NOW, WINDOW_DAYS)
        cases = read_cases(rows)
    assert len(cases) > 10
    assert ((cases.authors == 7) | (cases.repositories == 2)).all()
    assert not (cases.authors == 7).all()


def test_nothing_stays_hidden_afterwards_not_even_after_a_failure(rows: Rows) -> None:
    counts = [rows.value(f"select count(*) from {table}") for table in VISIBLE_ROWS]
    with pytest.raises(RuntimeError):
        _fail_within(rows, counts)
    assert [rows.value(f"select count(*) from {table}") for table in VISIBLE_ROWS] == counts


def _fail_within(rows: Rows, counts: list[int]) -> None:
    with only_around(rows, [(7, 2)]):
        assert [rows.value(f"select count(*) from {table}") for table in VISIBLE_ROWS] != counts
        raise RuntimeError


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
