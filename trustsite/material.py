"""What commands learn from: a file of past pull requests, or the newest snapshot."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from ingest.clock import wall_now
from ingest.past_files import PastProblem
from ingest.snapshot import SnapshotReader
from scoring.learning.material import Material, read_material
from scoring.learning.past_material import material_of_file
from scoring.policy import policy_from_settings


def material_of(file: Path | None) -> Material:
    """CommandError, in one sentence, where there is nothing to read."""
    policy = policy_from_settings()
    if file is not None:
        if not file.is_file():
            raise CommandError(f"{file} does not exist: name a file.", returncode=2)
        try:
            return material_of_file(file, settings.STAGING_DIR, wall_now(), policy)
        except PastProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            raise CommandError("Nothing was published yet: run the worker first, or name a FILE.", returncode=2)
        return read_material(snapshot, wall_now(), policy)


def starter_of(file: Path, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The starter file of a file of past pull requests, and its curve; CommandError, in one sentence, where there is
    none."""
    from scoring.learning.design import FitProblem
    from scoring.learning.starting import starter_of_file

    if not file.is_file():
        raise CommandError(f"{file} does not exist: name a file.", returncode=2)
    try:
        return starter_of_file(file, settings.STAGING_DIR, wall_now(), seed)
    except (FitProblem, PastProblem) as problem:
        raise CommandError(f"{str(problem).rstrip('.')}.", returncode=2) from problem
