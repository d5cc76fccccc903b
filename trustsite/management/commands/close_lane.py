"""`manage.py close_lane`: close the fast lane at once, or open it again, with a name and a reason."""

from collections.abc import Mapping

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.store.snapshots import Snapshot, SnapshotReader
from scoring.queries.read import repository_names
from triage.models import LaneClosure, Person
from triage.services.actions import ActionProblem
from triage.services.lane_closures import Scope, as_closure, close_lane, closure_words, names_in, open_lane, read_scope


class Command(BaseCommand):
    """Close or open the lane: on pages at once, in the worker with its next pass."""

    help = "Close the fast lane at once, or open it again with --open. Each option narrows what is closed."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --repo, --author, --voucher (the scope), --by and --because (person and reason), --open."""
        parser.add_argument("--repo", default="", metavar="KEY", help="a watched repository: its key or its name")
        parser.add_argument("--author", default="", metavar="DID", help="only for pull requests by this contributor")
        parser.add_argument("--voucher", default="", metavar="DID", help="only for people vouched for by them")
        parser.add_argument("--by", required=True, metavar="DID", help="the person who decides, by their account here")
        parser.add_argument("--because", required=True, metavar="TEXT", help="reason (maintainers see it)")
        parser.add_argument("--open", action="store_true", help="open exactly this closure again")

    def handle(self, *args: object, **options: str) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        reader = SnapshotReader(settings.SNAPSHOT_DIR)
        try:
            with reader.pin() as snapshot:
                self.stdout.write(_close_or_open(snapshot, options))
        except ActionProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        finally:
            reader.close()


def _close_or_open(snapshot: Snapshot | None, options: Mapping[str, str]) -> str:
    key = _find_key(options["repo"], repository_names(snapshot) if snapshot else {})
    scope = read_scope(key, options["author"], options["voucher"])
    person = _find_person(options["by"])
    return (_open if options["open"] else _close)(person, scope, options["because"], snapshot)


def _close(person: Person, scope: Scope, because: str, snapshot: Snapshot | None) -> str:
    record, is_new = close_lane(person, scope, because, timezone.now())
    closure = as_closure(record, {})
    words = closure_words(closure, names_in(snapshot, [closure]))
    return f"{words}." if is_new else f"{words} before: it stays closed."


def _open(person: Person, scope: Scope, because: str, snapshot: Snapshot | None) -> str:
    closure = LaneClosure.objects.filter(
        repo_key=scope.repo_key, author=scope.author, voucher=scope.voucher, opened_at=None
    ).first()
    if closure is None or not open_lane(person, closure, because, timezone.now()):
        raise CommandError("The fast lane is not closed for exactly this. /lane lists the closures.", returncode=2)
    return "The fast lane is open again."


def _find_key(name: str, names: dict[str, str]) -> str:
    """Return the key of a repository named by key or name. Raises CommandError if none or several match."""
    keys = (
        [name] if name in ("", *names) else [key for key, repository_name in names.items() if repository_name == name]
    )
    if len(keys) != 1:
        problem = "No watched repository is" if not keys else "More than one watched repository is"
        raise CommandError(f"{problem} called {name[:200]!r}; name it by its key. Nothing was changed.", returncode=2)
    return keys[0]


def _find_person(did: str) -> Person:
    person = Person.objects.filter(did=did, is_active=True).first()
    if person is None:
        raise CommandError(f"{did} has no account here: run `manage.py add_maintainer {did}` first.", returncode=2)
    return person
