"""Every check of the doctor, in the order in which its lines are printed."""

from collections.abc import Sequence

from trustsite.doctor import choices, ground, state
from trustsite.doctor.findings import Check

CHECKS: Sequence[tuple[str, Check]] = (
    ("drive", ground.check_drive),
    ("speed", ground.check_speed),
    ("room", ground.check_room),
    ("keys", ground.check_keys),
    ("clock", ground.check_clock),
    ("store", state.check_store),
    ("wal", state.check_wal),
    ("worker", state.check_worker),
    ("snapshot", state.check_snapshot),
    ("gaps", state.check_gaps),
    ("queue", state.check_queue),
    ("accounts", state.check_accounts),
    ("archive", state.check_archive),
    ("backups", state.check_backups),
    ("models", choices.check_models),
    ("certificates", choices.check_certificates),
    ("settings", choices.check_settings),
)
