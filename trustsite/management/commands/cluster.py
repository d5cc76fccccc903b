"""`manage.py cluster`: let a cluster that speaks Spark Connect compute what this machine would compute for long."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.cluster.engine import ClusterProblem, connected
from ingest.store.snapshots import SnapshotReader
from ingest.store.transaction import quoted
from scoring.cluster.job import run_features, run_trust
from scoring.config.policy import policy_from_settings

MADE = {"trust": "The trust of past months is there", "features": "Features of all pull requests are there"}
NEXT = {"trust": "cluster features --connect ADDRESS --folder", "features": "train --features"}


class Command(BaseCommand):
    """Read the newest snapshot; write nothing but the folder of the job. `manage.py train --features` takes it over."""

    help = (
        "Compute the features of every pull request on a cluster or, before them, the trust of past months where many "
        "repositories have seeds of their own; equal in every bit to what this machine computes (docs/scale.md). A run "
        "that was cut off goes on where it was; a finished one is left as it is."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add JOB, --connect, --folder and --shards."""
        parser.add_argument("job", metavar="JOB", choices=MADE, help="trust or features")
        parser.add_argument("--connect", required=True, metavar="ADDRESS", help="Spark Connect, sc://host:15002")
        parser.add_argument(
            "--folder",
            type=Path,
            required=True,
            metavar="FOLDER",
            help="an empty one, or that of a run cut off; every machine of the cluster sees it under this path",
        )
        parser.add_argument("--shards", type=int, metavar="N", help="parts of the work (default: one a 25,000 cases)")

    def handle(
        self, *args: object, job: str, connect: str, folder: Path, shards: int | None, **options: object
    ) -> None:
        """Export, compute, check. Raises CommandError in one sentence."""
        if shards is not None and shards < 1:
            raise CommandError("--shards must be 1 or more.", returncode=2)
        if not folder.is_dir():
            raise CommandError(f"{folder} is not a folder: make one that the whole cluster sees.", returncode=2)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError("Nothing was published yet: run the worker first.", returncode=2)
            snapshot.rows(f"set temp_directory = {quoted(_make_spill())}")  # not in the folder that the cluster sees
            place, policy, tell = folder.resolve(), policy_from_settings(), self.stderr.write
            try:
                if job == "trust":
                    found = run_trust(snapshot, place, lambda: connected(connect), policy, snapshot.published_at, tell)
                else:
                    found = run_features(
                        snapshot, place, lambda: connected(connect), policy, snapshot.published_at, shards, tell
                    )
            except ClusterProblem as problem:
                raise CommandError(str(problem)) from problem
        self.stdout.write(f"{MADE[job]} as of {found.as_of:%Y-%m-%d %H:%M} UTC. Next: manage.py {NEXT[job]} {folder}")


def _make_spill() -> Path:
    """Make the folder where DuckDB keeps what exceeds its memory. Raises CommandError if that is impossible."""
    folder: Path = settings.STAGING_DIR / "cluster"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CommandError(f"{folder} cannot be made ({problem.strerror}).") from problem
    return folder
