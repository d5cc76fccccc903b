"""One job in one folder, which this machine and every machine of the cluster see under the same path.

`job.json` fixes what the job is about; each step's result gets its name when it is whole. So a run that was cut off
goes on with the first step that has no result, and a repeat changes nothing.
"""

import fcntl
import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from ingest.cluster.engine import ClusterProblem, Connect
from ingest.files import write_whole
from ingest.store.transaction import Rows
from scoring.cluster import features, trust
from scoring.config.policy import Policy
from scoring.dataset.dataset import QUERY, build_cases, build_slices, load_slices

JOB, LOCK = "job.json", ".lock"
CASES_A_SHARD, FEWEST_SHARDS = 25_000, 8  # some kB of memory a case, so 100 MB a task
EXPORT_MEMORY = "2GB"  # beyond it DuckDB uses the drive
NOTHING_LEFT = "The job is finished: nothing was done."
Tell = Callable[[str], None]


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The moment and the rules of a job: its features are those of pull requests as they were known `as_of`."""

    as_of: datetime
    rules: str  # a hash of features.sql and of the settings that features depend on


def rules_of(policy: Policy) -> str:
    """Hash features.sql and the settings that features depend on."""
    trust = (policy.parameters, policy.half_life_days, policy.denounce_strength, policy.vouch_weight)
    weights = (policy.evidence_weight, policy.merge_weight, policy.merge_cap, policy.measure)
    return hashlib.sha256(repr((QUERY, trust, weights, policy.window_days)).encode()).hexdigest()[:16]


def read_job(folder: Path, policy: Policy) -> Job | None:
    """Return the job of a folder, None for a folder without one. Raises ClusterProblem for one of other rules."""
    try:
        job = msgspec.json.decode((folder / JOB).read_bytes(), type=Job)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as problem:
        raise ClusterProblem(f"{folder / JOB} cannot be read: empty the folder and run the job again.") from problem
    if job.rules != rules_of(policy):
        raise ClusterProblem(
            f"{folder} holds the features of another version or other settings: empty it and run the job again."
        )
    return job


def finished(folder: Path, policy: Policy) -> tuple[datetime, Path]:
    """Return the moment and the file of a finished job. Raises ClusterProblem where there is none."""
    job = read_job(folder, policy)
    if job is None or not (folder / features.RESULT).is_file():
        raise ClusterProblem(f"{folder} holds no finished job: run manage.py cluster features first.")
    return job.as_of, folder / features.RESULT


def run_features(
    rows: Rows, folder: Path, connect: Connect, policy: Policy, now: datetime, shards: int | None, tell: Tell
) -> Job:
    """Do what is left of the features in this folder; return the job. Raises ClusterProblem; what was finished stays.

    Trust is that of `run_trust` where the folder has it, otherwise it is computed here.
    """
    with _alone(folder):
        job = _begin(rows, folder, policy, now)
        if (folder / features.RESULT).is_file():
            tell(NOTHING_LEFT)
            return job
        if not (folder / features.ROWS_FILE).is_file():
            _export(rows, folder, policy, job, shards, tell)
        if not (folder / features.FOUND).is_dir():
            with connect() as session:
                features.compute(session, folder, tell)
        tell(f"{features.check(rows, folder)} pull requests were computed here as well, and are equal.")
        features.write_result(rows, folder)
        return job


def run_trust(rows: Rows, folder: Path, connect: Connect, policy: Policy, now: datetime, tell: Tell) -> Job:
    """Do what is left of the trust of past months, for `run_features` in the same folder; otherwise like that."""
    with _alone(folder):
        job = _begin(rows, folder, policy, now)
        if (folder / trust.SLICES).is_file():
            tell(NOTHING_LEFT)
            return job
        if not (folder / trust.WANTED).is_file():
            tell(f"{trust.export(rows, folder, job.as_of, policy)} slices of trust are wanted.")
        if not (folder / trust.COMPUTED).is_dir():
            with connect() as session:
                trust.compute(session, folder, policy)
        tell(f"{trust.check(rows, folder, policy)} slices were computed here as well, and are equal.")
        trust.write_result(rows, folder)
        return job


def _begin(rows: Rows, folder: Path, policy: Policy, now: datetime) -> Job:
    """Return the job of the folder, a new one where there is none."""
    rows.rows(f"set memory_limit = '{EXPORT_MEMORY}'")
    job = read_job(folder, policy)
    if job is None:
        job = Job(now, rules_of(policy))
        write_whole(folder / JOB, msgspec.json.encode(job))
    return job


def _export(rows: Rows, folder: Path, policy: Policy, job: Job, shards: int | None, tell: Tell) -> None:
    """Export everything that features need."""
    tell("Cases and trust are read.")
    build_cases(rows, job.as_of, policy.window_days)
    slices = folder / trust.SLICES
    if slices.is_file():
        load_slices(rows, folder / trust.WANTED, slices)
    else:
        build_slices(rows, job.as_of, policy)
    count = rows.value("select count(*) from cases")
    shards = shards or max(FEWEST_SHARDS, count // CASES_A_SHARD)
    tell(f"{count} cases are exported in {shards} shards.")
    features.export(rows, folder / features.ROWS_FILE, shards)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Hold the folder. Raises ClusterProblem if another process does, or if it is not a folder that can be written."""
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as problem:
        raise ClusterProblem(f"Another process runs the job in {folder}.") from problem
    except OSError as problem:
        raise ClusterProblem(f"{folder} cannot be used ({problem.strerror or problem}).") from problem
