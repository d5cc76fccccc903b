"""`manage.py create_token`: create a secret with which a program may use the JSON API."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.store.snapshots import SnapshotReader
from scoring.queries import read
from triage.access.tokens import SCOPES, UnknownScope, create_token
from triage.models import Person


class Command(BaseCommand):
    """Print the token on stdout, once: only its hash is stored."""

    help = "Create a token for the JSON API and print it once. Only its hash is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the purpose of the token, shown in lists of tokens")
        parser.add_argument(
            "--scopes", default="read", help=f"comma-separated, from {', '.join(SCOPES)} (default read)"
        )
        parser.add_argument(
            "--repo", metavar="REPO", help="the one repository that it reads: DID, at-uri or owner/name"
        )
        parser.add_argument("--person", metavar="DID", help="the owner of the token; it ends with that account")

    def handle(self, *args: object, name: str, scopes: str, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        scope_names = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        try:
            person, repo_key = _find_person(options["person"]), _find_repository(options["repo"])
            self.stdout.write(create_token(_check_name(name), scope_names, timezone.now(), person, repo_key))
        except UnknownScope as problem:
            raise CommandError(str(problem), returncode=2) from problem


def _check_name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > 100:
        raise CommandError("NAME must have 1 to 100 characters.", returncode=2)
    return name


def _find_repository(name: str | None) -> str:
    if name is None:
        return ""
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        key = read.repository_key(snapshot, name) if snapshot else None
    if key is None:
        raise CommandError(f"No watched repository is called {name[:200]}.", returncode=2)
    return key


def _find_person(did: str | None) -> Person | None:
    if did is None:
        return None
    person = Person.objects.filter(did=did, is_active=True).first()
    if person is None:
        raise CommandError(f"{did} has no account here: run `manage.py add_maintainer {did}` first.", returncode=2)
    return person
