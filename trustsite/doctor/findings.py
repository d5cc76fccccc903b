"""Findings of the doctor's checks; a check that breaks costs its own line and no other."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ingest.backup.manifest import BackupProblem, Places
from ingest.errors import FetchProblem, StoreProblem, plain
from ingest.store.look_inside import InspectProblem
from ingest.worker.status import Status
from scoring.certificates.certificate import CertificateProblem
from scoring.models.storage import ModelProblem
from trustsite.drive import DriveProblem

# What a broken drive, file or setting brings; an error in the program itself is not among them.
EXPECTED = (
    OSError,
    ValueError,
    sqlite3.Error,
    BackupProblem,
    CertificateProblem,
    FetchProblem,
    InspectProblem,
    ModelProblem,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `ok`, or what to look at and to do about it."""

    name: str
    ok: bool
    told: str


@dataclass(frozen=True, slots=True)
class Patient:
    """The things looked at: the state's place, the worker's own report (None: it says nothing), and the present.

    `now` is naive UTC; `settings` are Django's.
    """

    places: Places
    status: Status | None
    now: datetime
    settings: Mapping[str, object]

    @property
    def works(self) -> bool:
        """Return whether a worker says that it runs."""
        return self.status is not None and self.status.is_alive(_unix(self.now))


Check = Callable[[Patient], tuple[bool, str]]


def examine(patient: Patient, checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """Run every check, whatever becomes of the others."""
    return [_one(patient, name, check) for name, check in checks]


def _one(patient: Patient, name: str, check: Check) -> Finding:
    try:
        ok, told = check(patient)
    except (DriveProblem, StoreProblem) as problem:
        ok, told = False, str(problem)
    except EXPECTED as problem:
        ok, told = False, f"cannot be looked at, so see drive and settings first: {plain(problem)}"
    return Finding(name, ok, " ".join(told.split())[:600])


def _unix(now: datetime) -> float:
    return (now - datetime(1970, 1, 1)).total_seconds()
