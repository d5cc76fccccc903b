"""OSV records from a folder or a zip file, into the store: bounded, checked, and the same when done twice."""

import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ingest.osv import RECORD_LIMIT, OsvProblem, Record, read_record
from ingest.store import Store
from ingest.transaction import Transaction

BATCH = 500  # records a transaction: the writer's mutex is held for some 100 ms
FILES = 2_000_000  # of a folder or a zip file; all of OSV are some 500,000
TOTAL = 20_000_000_000  # bytes that are unpacked
PROBLEMS = 5  # that are told in words
CHILDREN = ("advisory_aliases", "advisory_ranges", "advisory_versions")
_RECORD = re.compile(r"\.(?:json|ya?ml)$", re.IGNORECASE)


class ImportProblem(Exception):
    """The source cannot be read as a whole; the message is one sentence that says what to do."""


@dataclass(slots=True)
class Imported:
    """What became of the files that were found."""

    kept: int = 0
    withdrawn: int = 0
    others: int = 0  # of ecosystems, or without versions, that are not looked up
    unusable: int = 0
    removed: int = 0  # advisories that stood here and are not among them, with `replace`
    problems: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """How many files were read."""
        return self.kept + self.withdrawn + self.others + self.unusable

    def note(self, name: str, problem: str) -> None:
        """A file that cannot be used; the first few are told."""
        self.unusable += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(f"{name[-100:]!a}: {problem}")


def import_osv(
    store: Store, source: Path, replace: bool = False, show: Callable[[int], None] = lambda read: None
) -> Imported:
    """Take the OSV records of a folder or zip file; an advisory that stands here is replaced, a withdrawn one goes.

    With `replace` what the source does not name goes too. `show` is told how many were read so far. Raises
    ImportProblem; what was taken before it stays, and doing it again goes on.
    """
    done, named = Imported(), set[str]()
    records = _records(source, done)
    while batch := list(islice(records, BATCH)):
        with store.write() as txn:
            write_records(txn, batch)
        named.update(record.advisory_id for record in batch)
        show(done.read)
    if replace:
        with store.write() as txn:
            done.removed = _remove_others(txn, named)
    return done


def write_records(txn: Transaction, records: Iterable[Record]) -> None:
    """Put these advisories in the place of what stands here under their ids."""
    latest = {record.advisory_id: record for record in records}
    kept = [record for record in latest.values() if record.advisory]
    gone = [advisory_id for advisory_id, record in latest.items() if not record.advisory]
    for table in CHILDREN:
        txn.execute(f"delete from {table} where advisory_id in (select unnest(?::varchar[]))", [list(latest)])
    txn.execute("delete from advisories where advisory_id in (select unnest(?::varchar[]))", [gone])
    now = txn.wall()
    txn.upsert("advisories", [{**record.advisory, "learned_clock": now} for record in kept if record.advisory])
    txn.append("advisory_aliases", [row for record in kept for row in record.aliases])
    txn.append("advisory_ranges", [row for record in kept for row in record.ranges])
    txn.append("advisory_versions", [row for record in kept for row in record.versions])


def _remove_others(txn: Transaction, named: set[str]) -> int:
    held = {row["advisory_id"] for row in txn.rows("select advisory_id from advisories")}
    gone = sorted(held - named)
    for table in ("advisories", *CHILDREN):
        txn.execute(f"delete from {table} where advisory_id in (select unnest(?::varchar[]))", [gone])
    return len(gone)


def _records(source: Path, done: Imported) -> Iterator[Record]:
    """The usable records of a source, counted as they come."""
    for name, data in _files(source):
        if data is None:
            done.note(name, f"it is larger than {RECORD_LIMIT} bytes, or broken")
            continue
        try:
            record = read_record(data, is_yaml=not name.lower().endswith(".json"))
        except OsvProblem as problem:
            done.note(name, str(problem))
            continue
        if record.advisory:
            done.kept += 1
        elif record.withdrawn:
            done.withdrawn += 1
        else:
            done.others += 1
        yield record


def _files(source: Path) -> Iterator[tuple[str, bytes | None]]:
    """Name and content of each file that may be a record; None as content where it is too large or broken."""
    try:
        if source.is_dir():
            found = (path for path in source.rglob("*") if _RECORD.search(path.name))
            yield from _counted((path.name, _content(path)) for path in found)
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                members = (member for member in archive.infolist() if _RECORD.search(member.filename))
                yield from _counted((member.filename, _member(archive, member)) for member in members)
        else:
            raise ImportProblem(f"{source} is neither a folder nor a zip file: name one with OSV records in it.")
    except (OSError, zipfile.BadZipFile) as error:
        raise ImportProblem(
            f"{source} cannot be read ({error}): name a folder or a zip file of OSV records."
        ) from error


def _counted(files: Iterable[tuple[str, bytes | None]]) -> Iterator[tuple[str, bytes | None]]:
    total = 0
    for number, (name, data) in enumerate(files, 1):
        total += len(data or b"")
        if number > FILES or total > TOTAL:
            raise ImportProblem(f"The source holds more than {FILES} files or {TOTAL} bytes: import it in parts.")
        yield name, data


def _content(path: Path) -> bytes | None:
    """A plain file's content; a link, which may lead anywhere, and a pipe, which may never end, are none."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with path.open("rb") as file:
        data = file.read(RECORD_LIMIT + 1)
    return data if len(data) <= RECORD_LIMIT else None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    """A member's content, unpacked no further than RECORD_LIMIT whatever its header promises."""
    try:
        with archive.open(member) as file:
            data = file.read(RECORD_LIMIT + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        return None  # broken, encrypted, or packed in a way that is not known
    return data if len(data) <= RECORD_LIMIT else None


def told(done: Imported) -> Mapping[str, Any]:
    """The counts as plain values."""
    counts = ("kept", "withdrawn", "others", "unusable", "removed", "problems", "read")
    return {name: getattr(done, name) for name in counts}
