"""`manage.py retry_dead_letters`: read events that were unreadable when they came again with today's code."""

from django.core.management.base import BaseCommand

from trustsite.worker.handover import hand_over_job

SILENT_SECONDS = 600.0  # it reports no progress until all are read


class Command(BaseCommand):
    help = "Read all unreadable events again. Those that this version can read are applied; others stay, with a reason."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        result = hand_over_job("retry_dead_letters", {}, silent_seconds=SILENT_SECONDS)
        self.stdout.write(f"{result['read']} read again, {result['applied']} applied, {result['left']} left.")
