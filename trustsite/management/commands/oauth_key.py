"""`manage.py oauth_key`: list, add and retire the keys with which this site proves itself to authorization servers."""

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from triage.access.oauth.keys import PUBLISHED_FOR, KeyProblem, ListedKey, add_key, list_keys, retire_key


class Command(BaseCommand):
    """Change the key file of this drive; the web process reads it anew for each sign-in."""

    help = "List, add or retire the keys with which this site proves itself where people sign in."

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--list", action="store_true", help="list the keys with the sessions bound to them")
        group.add_argument("--add", action="store_true", help="publish a new key; it is used 11 minutes later")
        group.add_argument("--retire", metavar="KEY", help="begin no new session with this key")

    def handle(self, *args: object, add: bool, retire: str | None, **options: object) -> None:
        """Print what was done. Raises CommandError in one sentence if nothing was changed."""
        call_command("migrate", verbosity=0, interactive=False)
        now = timezone.now()
        try:
            if add:
                key_id, minutes = add_key(now).key_id, PUBLISHED_FOR.seconds // 60
                self.stdout.write(f"{key_id} is published. New sign-ins use it in {minutes} minutes.")
            elif retire:
                removed = retire_key(retire, now)
                rest = "is removed." if removed else "begins nothing new. It goes with the last session bound to it."
                self.stdout.write(f"{retire} {rest}")
            else:
                self.stdout.write("\n".join(map(_describe, list_keys(now))))
        except KeyProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem


def _describe(listed: ListedKey) -> str:
    key = listed.key
    state = "in use" if listed.is_used else "retired" if key.retired_at else "published"
    return f"{key.key_id}  {key.made_at:%Y-%m-%d %H:%M} UTC  {state:<9}  sessions: {listed.bound}"
