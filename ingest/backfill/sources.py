"""Whom a backfill asks, and for what."""

from dataclasses import dataclass
from pathlib import Path

from ingest.clock import Clock
from ingest.net import Fetcher


@dataclass(frozen=True, slots=True)
class Sources:
    """The way to the network: `hosts` are https origins that name the accounts which keep records of a collection."""

    fetcher: Fetcher
    plc_url: str
    hosts: tuple[str, ...]
    collections: tuple[str, ...]  # NSIDs, everything that is asked for
    staging_dir: Path
    clock: Clock
