"""`manage.py init_drive`: make DATA_ROOT the drive that every start with state needs."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from trustsite import drive


class Command(BaseCommand):
    """Mark the folder (mode 700, `.sunstead`), and that of DUCKDB_PATH if it lies elsewhere; repeating is harmless."""

    help = "Mark DATA_ROOT as the drive that holds all state (mode 700), and make its keys and the web tables."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Mark the drive. Raises DriveProblem if the folder cannot be one."""
        root = settings.PLACE.root
        drive.mark(root)
        drive.mark_store_folder(settings.DUCKDB_PATH, root)
        for name in ("django", "audit", "tombstones"):
            drive.key(root, name)
        call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write(f"{root} is marked: `manage.py add_maintainer` comes next, then `make run`.")
