"""The ground: the drive, its speed and room, its keys, the clock."""

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from ingest.backup_files import KEYS
from ingest.clock import SLACK, from_microseconds
from ingest.early import AHEAD
from ingest.room import RESERVE_BYTES, SPARE_BYTES
from trustsite import drive
from trustsite.doctor.findings import Patient

PROBE_BYTES = 4_000_000
PROBE_SYNCS = 5
SLOWEST_BYTES = 10_000_000  # a second: below it a store of 500 MB cannot be published within a minute
SLOWEST_SYNC = 0.5  # seconds: the worker syncs several times a second
EARLY = AHEAD + SLACK  # an event may be dated so far ahead of the worker's clock, and heartbeats are rare
BEHIND = timedelta(minutes=10)


def check_drive(patient: Patient) -> tuple[bool, str]:
    """Whether DATA_ROOT is a marked folder of this user alone."""
    root = patient.places.root
    drive.require(drive.Place("drive", root))
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & 0o077:
        return False, f"{root} is open to others (mode {mode:o}): chmod 700 {root}"
    return True, f"{root} is marked and private to this user"


def check_speed(patient: Patient, clock: Callable[[], float] = time.perf_counter) -> tuple[bool, str]:
    """How fast 4 MB are written, synced and read, and a small write synced."""
    probe = patient.places.root / f".probe-{secrets.token_hex(8)}"
    try:
        began = clock()
        _write(probe, os.urandom(PROBE_BYTES))
        written = clock() - began
        began = clock()
        for _ in range(PROBE_SYNCS):
            _write(probe, b"x" * 4_096)
        synced = (clock() - began) / PROBE_SYNCS
    finally:
        probe.unlink(missing_ok=True)
    rate = PROBE_BYTES / max(written, 1e-9)
    told = f"{rate / 1e6:,.0f} MB/s written and synced, {synced * 1e3:,.1f} ms for a small write"
    if rate < SLOWEST_BYTES or synced > SLOWEST_SYNC:
        return False, f"{told}: the drive is slow, so pages will lag; use a local disk"
    return True, told


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def check_room(patient: Patient) -> tuple[bool, str]:
    """Whether the next snapshot fits and ingest does not stop."""
    places = patient.places
    free = shutil.disk_usage(places.root).free
    store = places.store.stat().st_size if places.store.exists() else 0
    wanted = max(drive.FREE_BYTES, RESERVE_BYTES, store + SPARE_BYTES)
    told = f"{free / 1e9:,.1f} GB free, {wanted / 1e9:,.1f} GB are needed"
    return free >= wanted, told if free >= wanted else f"{told}: free space on this drive, or move to a larger one"


def check_keys(patient: Patient) -> tuple[bool, str]:
    """Whether all keys are there, whole, and this user's alone."""
    folder = patient.places.keys
    wrong = [name for name in KEYS if not drive.is_key(folder / name)]
    if not folder.exists() and not patient.places.store.exists():
        return False, "no keys yet: run `manage.py init_drive` on a new drive"
    if wrong:
        return False, f"{', '.join(wrong)} missing or damaged in {folder}: put the backup of the keys there"
    open_ = [path for path in (folder, *(folder / name for name in KEYS)) if path.stat().st_mode & 0o077]
    if open_:
        return False, f"{open_[0]} can be read by others: chmod -R go= {folder}"
    return True, f"{len(KEYS)} keys, private to this user: keep a copy elsewhere"


def check_clock(patient: Patient) -> tuple[bool, str]:
    """Whether the wall clock agrees with the stream and with what was written before."""
    status = patient.status
    if status is None:
        return True, f"{patient.now:%Y-%m-%d %H:%M:%S} UTC; nothing to compare with yet"
    if patient.works and status.clock_behind_minutes:
        told = f"the clock is {status.clock_behind_minutes:,} min or more behind all new events, which wait"
        return False, f"{told}: it is wrong, set it by NTP"
    beat, newest = from_microseconds(int(status.written_at * 1e6)), from_microseconds(status.cursor_us)
    if beat > patient.now + SLACK:
        return False, f"the clock is {_minutes(beat - patient.now)} behind what the worker wrote: set it by NTP"
    if newest > beat + EARLY:
        told = f"an event dated {newest:%Y-%m-%d %H:%M} moved the cursor of the stream into the future"
        return (
            False,
            f"{told}: start the worker, which resets it as a gap; if the clock is wrong, set it by NTP first",
        )
    if patient.works and status.cursor_us and status.listener_problem is None and patient.now - newest > BEHIND:
        return (
            False,
            f"the newest event is {_minutes(patient.now - newest)} old: the stream is behind, or the clock wrong",
        )
    compared = "agrees with the stream" if status.cursor_us else "agrees with the worker; no event has arrived yet"
    return True, f"{patient.now:%Y-%m-%d %H:%M:%S} UTC {compared}"


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:,.0f} min"
