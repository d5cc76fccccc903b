"""The places of this drive's state, for backup, restore and doctor."""

from pathlib import Path

from django.conf import settings

from ingest.backup.manifest import Places


def places_from_settings() -> Places:
    """The files and folders that the settings name."""
    return Places(
        root=settings.ROOT,
        store=settings.DUCKDB_PATH,
        accounts=Path(settings.DATABASES["default"]["NAME"]),
        staging=settings.STAGING_DIR,
        diffs=settings.DIFF_CORPUS_DIR,
        models=settings.MODEL_DIR,
        keys=settings.ROOT / "keys",
        snapshots=settings.SNAPSHOT_DIR,
        caches=(settings.MIRROR_DIR, settings.PYG_ROOT),
    )
