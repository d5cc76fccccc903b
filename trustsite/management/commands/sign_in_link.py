"""`manage.py sign_in_link`: print a one-time link for a person with an account; their roles stay unchanged."""

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.snapshots import SnapshotReader
from triage.access.sign_in import issue_link
from triage.models import Person
from trustsite.command_line import held_did
from trustsite.management.commands.add_maintainer import MINUTES, link_address


class Command(BaseCommand):
    help = f"Print a one-time sign-in link ({MINUTES} minutes) for somebody who has an account here."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", metavar="DID|HANDLE", help="for example did:plc:… or ana.example.com")

    def handle(self, *args: object, who: str, **options: object) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            did = held_did(who, snapshot)
        person = Person.objects.filter(did=did, is_active=True).first()
        if person is None:
            raise CommandError(f"{did[:200]} has no account here: an admin gives them a role first.", returncode=2)
        self.stdout.write(link_address(issue_link(person, MINUTES)))
