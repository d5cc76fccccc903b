"""`manage.py doctor`: looks at what may be wrong with an installation, each check on its own.

The checks stand in the order in which their lines are printed.
"""

from collections.abc import Sequence

from trustsite.doctor import checks
from trustsite.doctor.findings import Check

CHECKS: Sequence[tuple[str, Check]] = (
    ("drive", checks.check_drive),
    ("speed", checks.check_speed),
    ("room", checks.check_room),
    ("keys", checks.check_keys),
    ("clock", checks.check_clock),
    ("store", checks.check_store),
    ("wal", checks.check_wal),
    ("worker", checks.check_worker),
    ("snapshot", checks.check_snapshot),
    ("gaps", checks.check_gaps),
    ("queue", checks.check_queue),
    ("accounts", checks.check_accounts),
    ("archive", checks.check_archive),
    ("backups", checks.check_backups),
    ("models", checks.check_models),
    ("certificates", checks.check_certificates),
    ("settings", checks.check_settings),
)
