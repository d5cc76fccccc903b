"""Builds what commands learn from: a file of past pull requests, or the newest snapshot."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from ingest.clock import wall_now
from ingest.history_import.files import PastProblem
from ingest.store.snapshots import SnapshotReader
from scoring.config.policy import policy_from_settings
from scoring.dataset.dataset import Material, material_of_file, read_material
from scoring.models.base import FitProblem
from scoring.training.starter import starter_of_file


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
    if not file.is_file():
        raise CommandError(f"{file} does not exist: name a file.", returncode=2)
    try:
        return starter_of_file(file, settings.STAGING_DIR, wall_now(), seed)
    except (FitProblem, PastProblem) as problem:
        raise CommandError(f"{str(problem).rstrip('.')}.", returncode=2) from problem
