"""`manage.py create_token`: a secret with which a program may use the JSON API."""

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from triage.models import Person
from triage.tokens import SCOPES, UnknownScope, create_token


class Command(BaseCommand):
    """Prints the token on stdout, once: only its hash is kept."""

    help = "Make a token for the JSON API and print it once; only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        """NAME, --scopes and --person."""
        parser.add_argument("name", metavar="NAME", help="what the token is for, shown wherever tokens are listed")
        parser.add_argument(
            "--scopes", default="read", help=f"comma-separated, from {', '.join(SCOPES)} (default read)"
        )
        parser.add_argument("--person", metavar="DID", help="whose token it is; it dies with that account")

    def handle(self, *args: object, name: str, scopes: str, person: str | None, **options: object) -> None:
        """Make it, or CommandError in one sentence."""
        call_command("migrate", verbosity=0, interactive=False)
        wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        try:
            self.stdout.write(create_token(_name(name), wanted, timezone.now(), _person(person)))
        except UnknownScope as problem:
            raise CommandError(str(problem), returncode=2) from problem


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > 100:
        raise CommandError("NAME must have 1 to 100 characters.", returncode=2)
    return name


def _person(did: str | None) -> Person | None:
    if did is None:
        return None
    person = Person.objects.filter(did=did, is_active=True).first()
    if person is None:
        raise CommandError(f"{did} has no account here: run `manage.py add_maintainer {did}` first.", returncode=2)
    return person
