"""A world in which every table that features read is filled, and one job on it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.cluster.job import run_features
from scoring.config.policy import Policy
from scoring.dataset.dataset import QUESTIONS, build_cases, build_slices
from tests.scoring.dataset.test_around import NOW, WINDOW_DAYS, WORLD
from tests.stores import fresh_store

POLICY = Policy(window_days=WINDOW_DAYS)
# Two equal comments are two, a person of did:web is one, and a signal of a stranger may be no number at all.
BESIDE = """
insert into comments by name
select uri || '/again' as uri, * exclude (uri) from comments;
update comments set body = 'a secret about mara' where subject_uri like '%7';
update contributors set did = 'did:web:mara.example' where contributor_id = 5;
insert into signals by name
select 'did:web:mara.example' as subject, 'bluesky' as source, key, value, timestamp '2025-03-01' as observed_at,
  observed_at as known_from
from (values ('followers', 'nan'), ('follows', '1e999'), ('display_name', 'mara of the secret')) s(key, value)
"""


def everything_filled(folder: Path) -> Store:
    store = fresh_store(folder / "trust.duckdb")
    with store.write() as txn:
        for statement in (WORLD + BESIDE).split(";\n"):
            if statement.strip():
                txn.execute(statement)
    return store


def prepared(rows: Rows) -> None:
    """Let this cursor have the cases and slices of the world."""
    build_cases(rows, NOW, WINDOW_DAYS)
    build_slices(rows, NOW, POLICY)
    rows.rows(QUESTIONS)


def no_cluster() -> NoReturn:
    raise AssertionError("the cluster was asked")


def run_job(
    rows: Rows,
    folder: Path,
    connect: Callable[[], AbstractContextManager[Any]],
    shards: int | None = 3,
    tell: Callable[[str], None] = lambda words: None,
) -> Sequence[str]:
    """Run the job of the world; return what was told."""
    folder.mkdir(exist_ok=True)
    told: list[str] = []

    def note(words: str) -> None:
        told.append(words)
        tell(words)

    run_features(rows, folder, connect, POLICY, NOW, shards, note)
    return told
