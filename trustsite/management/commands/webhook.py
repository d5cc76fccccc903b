"""`manage.py webhook`: what verifies a message, a message for a test, and what became of the last ones."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.http.fetcher import Fetcher, Receiver
from triage.access.tokens import own_origin
from triage.models import WebhookDelivery
from triage.services.webhooks import Event, body_of, new_id, secret_of, send

LISTED = 20


class Command(BaseCommand):
    """Reads the web's own tables; --test sends from this process, whether or not a worker runs."""

    help = (
        f"List the last {LISTED} messages to WEBHOOK_URL. Print the secret that verifies them, or send a test message."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--secret", action="store_true", help="print the secret for the receiver")
        what.add_argument("--test", action="store_true", help="send a message of type webhook.test now")

    def handle(self, *args: object, secret: bool, test: bool, **options: object) -> None:
        if secret:
            self.stdout.write(secret_of(str(settings.WEBHOOK_KEY)))
        elif test:
            self.stdout.write(_send_test())
        else:
            call_command("migrate", verbosity=0, interactive=False)
            found = WebhookDelivery.objects.order_by("-pk")[:LISTED]
            self.stdout.write("\n".join(map(_line, found)) or _nothing())


def _send_test() -> str:
    if not settings.WEBHOOK_URL:
        raise CommandError(_nothing(), returncode=2)
    fetcher, now = Fetcher(), timezone.now()
    try:
        receiver = Receiver(settings.WEBHOOK_URL, fetcher.leash)
        problem, _ = send(receiver, new_id(), body_of(Event("webhook.test", {"address": own_origin()}), now), now)
    finally:
        fetcher.close()
    if problem:
        raise CommandError(f"The receiver refused it: {problem}.", returncode=1)
    return f"{receiver.host} accepted it."


def _nothing() -> str:
    return (
        "Nothing was sent yet."
        if settings.WEBHOOK_URL
        else "WEBHOOK_URL is empty: set it first, then start the worker."
    )


def _line(one: WebhookDelivery) -> str:
    """Return what became of one message; what the receiver answered is told by its status alone."""
    became = "waits" if one.due_at else "given up" if one.given_up_at else "taken"
    tries = f"{one.tries} {'try' if one.tries == 1 else 'tries'}"
    said = f"; {one.problem}" if one.problem else ""
    return f"{one.made_at:%Y-%m-%d %H:%M:%S}  {one.event:<13} {became:<9} {tries}{said}  {one.key}"
