"""`manage.py webhook`: print the secret that verifies messages, send a test message, or list the last ones."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.http.fetcher import Fetcher, Receiver
from triage.access.tokens import own_origin
from triage.models import Delivery
from triage.services.notifying.sending import new_id
from triage.services.notifying.webhooks import Event, body_of, secret_of, send

LISTED = 20


class Command(BaseCommand):
    """Read the web's own tables; --test sends from this process, even without a worker."""

    help = (
        f"List the last {LISTED} messages to WEBHOOK_URL. Print the secret that verifies them, or send a test message."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--secret", action="store_true", help="print the secret for the receiver")
        group.add_argument("--test", action="store_true", help="send a message of type webhook.test now")

    def handle(self, *args: object, secret: bool, test: bool, **options: object) -> None:
        if secret:
            self.stdout.write(secret_of(str(settings.WEBHOOK_KEY)))
        elif test:
            self.stdout.write(_send_test())
        else:
            call_command("migrate", verbosity=0, interactive=False)
            deliveries = Delivery.objects.filter(subscription=None).order_by("-pk")[:LISTED]
            self.stdout.write("\n".join(map(_describe, deliveries)) or _nothing_sent())


def _send_test() -> str:
    if not settings.WEBHOOK_URL:
        raise CommandError(_nothing_sent(), returncode=2)
    fetcher, now = Fetcher(), timezone.now()
    try:
        receiver = Receiver(settings.WEBHOOK_URL, fetcher.leash)
        problem, _ = send(receiver, new_id(), body_of(Event("webhook.test", {"address": own_origin()}), now), now)
    finally:
        fetcher.close()
    if problem:
        raise CommandError(f"The receiver refused it: {problem}.", returncode=1)
    return f"{receiver.host} accepted it."


def _nothing_sent() -> str:
    return (
        "Nothing was sent yet."
        if settings.WEBHOOK_URL
        else "WEBHOOK_URL is empty: set it first, then start the worker."
    )


def _describe(delivery: Delivery) -> str:
    """Return the state of one message; only the status of the receiver's answer is shown."""
    state = "waits" if delivery.due_at else "given up" if delivery.given_up_at else "taken"
    tries = f"{delivery.tries} {'try' if delivery.tries == 1 else 'tries'}"
    problem = f"; {delivery.problem}" if delivery.problem else ""
    return f"{delivery.made_at:%Y-%m-%d %H:%M:%S}  {delivery.event:<13} {state:<9} {tries}{problem}  {delivery.key}"
