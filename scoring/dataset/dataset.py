"""Builds the data that models learn from: pull requests of a store, snapshot or history file, with features.

The cases are a temporary table `cases`. For questions about a few people the rest of a store is hidden from one cursor
(`only_around`): features of a person depend on their own pull requests everywhere and on everybody's in their
repository, a few thousand of a store of 100,000. features.sql computes a column for each entry of the catalogue.

`Material` holds cases with features, the columns by scope, and a name for exactly this data. The material of a history
file alone is read in a temporary store.

Trust as of an opening is read in slices: one for each month, and one for now.
"""

import hashlib
import logging
import tempfile
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.history_import.pulls import TITLE_SAYS, import_past
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.dataset.cases import Cases, Directions, Times, Vouches
from scoring.dataset.catalogue import FEATURES
from scoring.dataset.labels import AuditAnswer, FastLaned
from scoring.dataset.track_record import RECORD
from scoring.trust.graph import Floats
from scoring.trust.table import STATEMENTS, Graph, passage_columns, read_graph, site_share, trust_columns
from scoring.types import Pair

TABLES = (
    "create temp table if not exists slice_dates (repository_id integer, as_of timestamp)",
    """create temp table if not exists trust_slices (
      repository_id integer, contributor_id integer, as_of timestamp, structural_trust double, eigentrust double,
      distance integer, trusted_denouncers integer)""",
)
EMPTY = ("delete from slice_dates", "delete from trust_slices")
SEEDS = "select repository_id, list(contributor_id order by contributor_id) as seeds from seeds group by 1 order by 1"
FIRST_VOUCH = "select min(seen_at) from vouches"
ADD_DATE = "insert into slice_dates select unnest($repositories), $as_of::timestamp"
ADD = """
insert into trust_slices
select $repository, unnest($contributors), $as_of::timestamp, unnest($trust), unnest($share), unnest($distance),
  unnest($denouncers)
"""
COPY_TRUST = (
    "insert into slice_dates select distinct repository_id, $as_of::timestamp from seeds",
    """insert into trust_slices by name
    select repository_id, contributor_id, $as_of::timestamp as as_of, structural_trust, eigentrust, distance,
      trusted_denouncers
    from trust""",
)


def prepare_slices(rows: Rows) -> None:
    """Create the temporary tables `slice_dates` and `trust_slices` of this cursor unless they exist."""
    for statement in TABLES:
        rows.rows(statement)


def month_starts(first: datetime, until: datetime) -> list[datetime]:
    """Return the first moment of every month after `first` and not after `until`, and `until`."""
    starts, month = [], first.year * 12 + first.month
    while (moment := datetime(month // 12, month % 12 + 1, 1)) <= until:
        starts.append(moment)
        month += 1
    return [*starts, until] if first <= until and until not in starts else starts


def slices_wanted(rows: Rows, now: datetime) -> tuple[list[datetime], dict[int, list[int]]]:
    """Return the moments of the slices until now, every month since the first vouch, and the seeds by repository.

    The seed sets are those of today: earlier maintainers are not recorded.
    """
    first, seeds = rows.value(FIRST_VOUCH), {row["repository_id"]: row["seeds"] for row in rows.rows(SEEDS)}
    return (month_starts(first, now) if first is not None and seeds else []), seeds


def build_slices(rows: Rows, now: datetime, policy: Policy) -> int:
    """Fill both tables with trust at the start of every month since the first vouch, and now; return their number.

    A slice is computed from events before its moment.
    """
    prepare_slices(rows)
    for statement in EMPTY:
        rows.rows(statement)
    moments, seeds = slices_wanted(rows, now)
    for moment in moments:
        _add_slice(rows, moment, seeds, policy)
    return len(moments)


def load_slices(rows: Rows, wanted: Path, slices: Path) -> None:
    """Fill both tables with slices that `manage.py cluster trust` wrote, and with the dates of all it had to write."""
    prepare_slices(rows)
    for statement in EMPTY:
        rows.rows(statement)
    rows.rows(
        "insert into slice_dates by name select repository_id, as_of from read_parquet($file)", {"file": str(wanted)}
    )
    rows.rows("insert into trust_slices by name from read_parquet($file)", {"file": str(slices)})


def load_current_trust(rows: Rows) -> None:
    """Fill both tables with one slice for all times, the table `trust` of the last pass, to judge by now."""
    prepare_slices(rows)
    for statement in EMPTY:
        rows.rows(statement)
    for statement in COPY_TRUST:
        rows.rows(statement, {"as_of": datetime(1, 1, 1)})


def _add_slice(rows: Rows, moment: datetime, seeds: Mapping[int, Sequence[int]], policy: Policy) -> None:
    graph = read_graph(rows, moment, policy)
    share = site_share(graph)
    rows.rows(ADD_DATE, {"repositories": list(seeds), "as_of": moment})
    for repository, people in seeds.items():
        table = slice_of(graph, repository, people, share, policy)
        columns = {
            "contributors": table["contributor_id"],
            "trust": table["structural_trust"],
            "share": table["eigentrust"],
            "distance": table["distance"],
            "denouncers": table["trusted_denouncers"],
        }
        values = {name: column.to_pylist() for name, column in columns.items()}
        rows.rows(ADD, {"repository": repository, "as_of": moment, **values})


def slice_of(graph: Graph, repository: int, seeds: Sequence[int], share: Floats, policy: Policy) -> pa.Table:
    """Compute one seed set's trust in everybody, with the columns of the table `trust`; `share` is `site_share`."""
    return trust_columns(graph, repository, seeds, passage_columns(graph, seeds, policy), share, policy)


log = logging.getLogger(__name__)
MOST_NEW = 0.01


class FeaturesProblem(Exception):
    """A file of features does not fit the store; one sentence says why."""


QUERY = Path(__file__).with_name("features.sql").read_text()
NAMES = tuple(feature.name for feature in FEATURES)
PERSON = tuple(feature.name for feature in FEATURES if feature.of == "person")
QUESTIONS = "create temp table if not exists questions as from cases limit 0"
# A question about a person is answered as if a change of theirs arrived now.
ADD_QUESTIONS = """
create or replace temp table questions as
select concat('person:', author_id, ':', repository_id) as key, author_id, repository_id, $now::timestamp as opened_at,
  exists (from push_holders h where h.repository_id = asked.repository_id and h.contributor_id = asked.author_id
    and coalesce(h.held_from <= $now, true) and coalesce($now < h.held_until, true)) as push_holder, false as is_bot
from (select unnest($people) as author_id, unnest($repositories) as repository_id) asked
"""
# Unknown values become NaN in SQL: NumPy's masked columns would be copied twice, 1.3 s of 9 for 1,000,000 rows.
PLAIN = "coalesce(columns(* exclude (key, place))::double, 'nan'::double)"
OF_CASES = f"select place, {PLAIN} from ({QUERY})"
KEYS = "select key from cases where not is_bot order by rowid"
HASHED = "left(sha256({}), 32)"  # the key of a pull request where its name stays here
OF_FILE = f"""
select c.rowid as place, coalesce(columns(f.* exclude (key))::double, 'nan'::double), f.key is null as missing
from cases c left join read_parquet($file) f on f.key = {HASHED.format("c.key")} where not c.is_bot order by place
"""
ANSWERS = f"""
select key, {PLAIN} from ({QUERY})
semi join (select key from questions union all select unnest($changes)) using (key)
"""


def add_features(rows: Rows, cases: Cases) -> Cases:
    """Add a float64 column for each of FEATURES, NaN where unknown; after `build_cases`.

    Trust is that of the slices of `build_slices`; without any it is unknown. `cases` must be those of the
    temporary table `cases`: ValueError where the keys differ.
    """
    prepare_slices(rows)
    rows.rows(QUESTIONS)
    if not np.array_equal(rows.columns(KEYS)["key"], cases.keys):
        raise ValueError("these are not the cases that the features belong to")
    table = rows.columns(OF_CASES)
    order = np.argsort(table["place"])  # a tenth of the CPU that the query needs to sort all columns
    for name in NAMES:
        table[name][:] = table[name][order]
    return replace(cases, features={name: table[name] for name in NAMES})


def add_features_of_file(rows: Rows, cases: Cases, file: Path) -> Cases:
    """Add the features that `manage.py cluster features` wrote; after `build_cases` as of the moment of that job.

    Cases that became known after it are left out, and logged. Raises FeaturesProblem where these are more than MOST_NEW
    of all, as after an import.
    """
    table = rows.columns(OF_FILE, {"file": str(file)})
    missing = np.asarray(table["missing"], dtype=np.bool_)
    if not len(cases) or missing.mean() > MOST_NEW:
        raise FeaturesProblem(
            f"{missing.sum()} of {len(cases)} pull requests have no features in {file}: run manage.py cluster features "
            "again, with an empty folder."
        )
    if missing.any():
        log.warning("%d pull requests became known after %s was made and are left out", missing.sum(), file)
    return replace(cases, features={name: table[name] for name in NAMES}).select(~missing)


def read_features(
    rows: Rows, people: Sequence[tuple[int, int]], changes: Sequence[str], now: datetime
) -> tuple[dict[str, NDArray[np.float64]], dict[tuple[int, int] | str, int]]:
    """Read features of people (contributor_id, repository_id) as of now, and of changes (keys) as of their opening.

    Returns the columns, and the place of each person and change in them; features of a change are unknown for a person.
    Call after `build_cases`; trust is that of the newest slice before the moment, unknown where there is none.
    """
    authors, repositories = [list(numbers) for numbers in zip(*people, strict=True)] if people else ([], [])
    prepare_slices(rows)
    rows.rows(ADD_QUESTIONS, {"people": authors, "repositories": repositories, "now": now})
    table = rows.columns(ANSWERS, {"changes": list(changes)})
    return {name: table[name] for name in NAMES}, {
        _parse_key(str(key)): place for place, key in enumerate(table["key"])
    }


def _parse_key(key: str) -> tuple[int, int] | str:
    if not key.startswith("person:"):
        return key
    author, repository = key.split(":")[1:]
    return int(author), int(repository)


QUIET_DAYS = 180  # without a new round a pull request counts as refused
CASES = Path(__file__).with_name("cases.sql").read_text()
TIMES = (
    "opened_at",
    "observed_until",
    "merged_at",
    "refused_at",
    "reverted_at",
    "patched_at",
    "patched_fix_at",
    "failed_at",
)
COLUMNS = f"select key, author_id, repository_id, push_holder, as_sent, {', '.join(TIMES)} from cases"
READ = f"{COLUMNS} where not is_bot order by opened_at, key"

DRAW_PEOPLE = """
delete from cases where author_id not in (
  select author_id from (select author_id, min(opened_at) as first from cases group by author_id)
  qualify row_number() over (partition by date_trunc('quarter', first) order by md5(author_id::varchar))
    <= round($share * count(*) over (partition by date_trunc('quarter', first)))
)
"""
# The first answer counts: it was given before lane and score were shown.
AUDITED = """
select pull_uri, arg_min(odds, known_from) as odds, arg_min(not would_merge, known_from) as bad,
  min(known_from) as known_from
from audits where known_from <= ? group by pull_uri
"""
WAVED = "select pull_uri from waved_through where as_of <= ?"


def build_cases(rows: Rows, now: datetime, window_days: int) -> None:
    """Create the temporary table `cases` of this cursor, in the order of opening, as of `now`.

    Its columns are `key`, `author_id` and `repository_id` (negative for those known only by an imported history), the
    times of `Cases`, `push_holder`, `checks_known`, `as_sent`; of the change as opened `additions`, `deletions`,
    `files_touched`, `binary_files`, `touches_tests`, `docs_only`, `touches_sensitive`, `title_length`, `title_says`;
    `is_bot` and `state`. Columns after the times are null where unknown. The temporary tables `outcomes` and `counting`
    stay, too.
    """
    values = {"now": now, "window": window_days, "quiet": QUIET_DAYS}
    rows.rows(TITLE_SAYS)
    for statement in (STATEMENTS["outcomes"], STATEMENTS["counting"], CASES):
        rows.rows(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def draw_people(rows: Rows, most: int) -> None:
    """Leave about `most` rows of the temporary table `cases`: all that a part of the people opened; the same each time.

    People are drawn within the quarter in which they first opened one, so that every time has its share. Whole people
    stay, since a model learns from the record of each (`scoring.dataset.track_record`), which reads all their cases.
    """
    share = min(1.0, most / max(1, rows.value("select count(*) from cases")))
    rows.rows(DRAW_PEOPLE, {"share": share})


def read_cases(rows: Rows) -> Cases:
    """Read all cases except bots', in the order of opening and without features; after `build_cases`."""
    table = rows.columns(READ)
    return Cases(
        keys=np.asarray(table["key"], dtype=np.object_),
        authors=np.asarray(table["author_id"], dtype=np.int64),
        repositories=np.asarray(table["repository_id"], dtype=np.int64),
        push_holder=np.asarray(table["push_holder"], dtype=np.bool_),
        as_sent=np.asarray(table["as_sent"], dtype=np.int8),
        features={},
        **{name: _times(table, name) for name in TIMES},
    )


def _times(columns: Mapping[str, Any], name: str) -> Times:
    """Return a column of times with NaT for null."""
    column = columns[name]
    if np.ma.isMaskedArray(column):
        column = column.filled(np.datetime64("NaT"))
    return np.asarray(column, dtype="datetime64[us]")


def read_lane(rows: Rows, now: datetime) -> FastLaned:
    """Read the pull requests that the lane let through until now, with the answers of the audit."""
    audited = {row.pop("pull_uri"): AuditAnswer(**row) for row in rows.rows(AUDITED, [now])}
    return FastLaned(audited, {row["pull_uri"] for row in rows.rows(WAVED, [now])})


# The rows of each table that stay visible, in the order of hiding: later conditions read earlier tables.
VISIBLE_ROWS = {
    "pull_requests": "author_id in (select unnest($authors)) or repository_id in (select unnest($repositories))",
    # Three columns select the rows: the other thirty are read of these alone.
    "imported_pulls": """rowid in (
      select rowid from imported_pulls
      where author_id in (select unnest($authors)) or repository_id in (select unnest($repositories))
        or repository in (
          select alias from repository_aliases where repository_id in (select unnest($repositories))))""",
    "statuses": "pull_uri in (select pull_uri from pull_requests)",
    "landings": "pull_uri in (select pull_uri from pull_requests)",
    "pull_rounds": "pull_uri in (select pull_uri from pull_requests)",
    "ci_runs": "pull_uri in (select pull_uri from pull_requests)",
    # Trust in owners decides which repositories count.
    "trust": """contributor_id in (select unnest($authors))
      or repository_id = 0 and contributor_id in (select owner_id from repositories)""",
    "signals": "subject in (select did from contributors where contributor_id in (select unnest($authors)))",
}


@contextmanager
def only_around(rows: Rows, people: Collection[Pair]) -> Generator[None]:
    """Hide from this cursor all rows that features of these people (contributor_id, repository_id) do not depend on.

    For these people, and their changes in those repositories, `build_cases`, `load_current_trust` and `read_features`
    give what they give on the whole store: temporary tables of the same names hide those of the store.
    """
    authors, repositories = ([*{pair[side] for pair in people}] for side in (0, 1))
    numbers_by_name = {"authors": authors, "repositories": repositories}
    hiding: list[str] = []
    try:
        for table, condition in VISIBLE_ROWS.items():
            parameters = {name: numbers for name, numbers in numbers_by_name.items() if f"${name}" in condition}
            rows.rows(f"create temp table {table} as from {table} where {condition}", parameters)
            hiding.append(table)
        yield
    finally:
        for table in hiding:
            rows.rows(f"drop table temp.{table}")


MATERIAL_COLUMNS = (*FEATURES, *RECORD)
NOTHING = FastLaned()
REPOSITORIES = """
select distinct c.repository_id, coalesce(r.name, i.repository, 'repository ' || c.repository_id) as name
from cases c left join repositories r on r.repository_id = c.repository_id
left join (select distinct repository_id, repository from imported_pulls) i on i.repository_id = c.repository_id
"""
VOUCHES = """
select voucher_id, subject_id, kind = 'vouch' as is_vouch, seen_at, superseded_at from vouches
where seen_at <= $now and voucher_id <> subject_id and voucher_id not in (select contributor_id from hidden_people)
order by seen_at, voucher_id, subject_id
"""
RISKS = "select pull_uri, arg_max(content_risk, begun_clock) as risk from content_reviews group by pull_uri"


@dataclass(frozen=True, slots=True)
class Material:
    """Cases with features: `person` maps the columns of the person to directions, `change` also those of the change.

    Of the record `change` has only the counts: the rest lowered the AUC of trees for merges by .004. `alone` are
    columns that a person moves alone. `repositories` maps numbers to names. `lane` are pull requests that the fast lane
    let through. `risk` is the content risk by key of case, where the content was read. `vouches` are all
    that were seen.
    """

    cases: Cases
    person: Directions
    change: Directions
    alone: tuple[str, ...]
    repositories: Mapping[int, str]
    lane: FastLaned = NOTHING
    risk: Mapping[str, float] = field(default_factory=dict)
    vouches: Vouches = field(default_factory=Vouches)

    def __len__(self) -> int:
        return len(self.cases)


OF_PERSON: Directions = {feature.name: feature.direction for feature in MATERIAL_COLUMNS if feature.of == "person"}
OF_CHANGE: Directions = {feature.name: feature.direction for feature in (*FEATURES, *RECORD[:2])}
ALONE = tuple(one.name for one in MATERIAL_COLUMNS if one.of == "person" and one.moved_by == "self")


def material_of(cases: Cases, repositories: Mapping[int, str], lane: FastLaned = NOTHING) -> Material:
    return Material(cases, OF_PERSON, OF_CHANGE, ALONE, repositories, lane)


def read_material(
    rows: Rows, now: datetime, policy: Policy, features: Path | None = None, most: int | None = None
) -> Material:
    """Read all cases as of `now` with their features, or about `most` of those whose features a file holds.

    Raises FeaturesProblem if the file does not hold them.
    """
    build_cases(rows, now, policy.window_days)
    if features is not None and most is not None:
        draw_people(rows, most)
    if features is None:
        build_slices(rows, now, policy)
        cases = add_features(rows, read_cases(rows))
    else:
        cases = add_features_of_file(rows, read_cases(rows), features)
    names = {row["repository_id"]: row["name"] for row in rows.rows(REPOSITORIES)}
    risk = {row["pull_uri"]: row["risk"] for row in rows.rows(RISKS)}
    return replace(material_of(cases, names, read_lane(rows, now)), risk=risk, vouches=read_vouches(rows, now))


def read_vouches(rows: Rows, now: datetime) -> Vouches:
    table = rows.columns(VOUCHES, {"now": now})
    people = [np.asarray(table[name], dtype=np.int64) for name in ("voucher_id", "subject_id")]
    is_vouch = np.asarray(table["is_vouch"], dtype=np.bool_)
    return Vouches(*people, is_vouch, _times(table, "seen_at"), _times(table, "superseded_at"))


def data_version(cases: Cases) -> str:
    """Hash cases and features to 16 hexadecimal digits, equal on every machine."""
    digest = hashlib.sha256()
    for attribute in fields(cases):
        if attribute.name in ("keys", "features"):
            continue
        digest.update(np.ascontiguousarray(getattr(cases, attribute.name)).tobytes())
    for key in cases.keys:
        digest.update(str(key).encode() + b"\0")
    for name in sorted(cases.features):
        # Twelve digits: sums in another order differ in the last ones.
        column = np.char.mod("%.12g", cases.features[name])
        digest.update(name.encode() + b"\0" + "\0".join(column.tolist()).encode())
    return digest.hexdigest()[:16]


def material_of_file(path: Path, folder: Path, now: datetime, policy: Policy) -> Material:
    """Read a file of past pull requests (docs/history.md), in a temporary store below `folder`.

    Raises PastProblem in one sentence.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="backtest-", dir=folder) as scratch:
        store = Store.open(Path(scratch) / "past.duckdb", wall=lambda: now)
        try:
            import_past(store, path, None, "file")
            with store.read() as rows:
                return read_material(rows, now, policy)
        finally:
            store.close()
