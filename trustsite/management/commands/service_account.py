"""`manage.py service_account`: connect the account as which this site publishes, look at it, take everything back."""

import getpass
import sys
from contextlib import closing
from datetime import timedelta

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.http.fetcher import Fetcher
from ingest.oauth.dpop import DpopSender
from triage.models import ServiceAccount
from triage.services.publishing.publisher import HOUR, points_spent
from triage.services.publishing.records import count_records, label_definition, retract_all, service_account
from triage.services.publishing.service_account import ConnectProblem, connect_password
from trustsite.publishing import describe_refused, look_at

BY_GRANT = (
    "{origin}/publishing connects {name}: open it as an admin of the site, and allow its collections at the "
    "account's own server. An app password opens the whole account; where there is no browser, add --app-password."
)


class Command(BaseCommand):
    """Change the one row of the service account; the worker does what is sent to its server."""

    help = "Connect the account as which this site publishes assessments, look at it, or take everything back."

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--connect", metavar="HANDLE|DID", help="publish as this account from now on")
        group.add_argument("--status", action="store_true", help="say how the account and its records are")
        group.add_argument("--retract-all", action="store_true", help="delete every record, and publish nothing more")
        parser.add_argument("--app-password", action="store_true", help="connect by one, also where a grant works")

    def handle(self, *args: object, connect: str | None, status: bool, app_password: bool, **options: object) -> None:
        """Print what was done. Raises CommandError in one sentence if nothing was."""
        call_command("migrate", verbosity=0, interactive=False)
        if connect:
            self.stdout.write(self._connect(connect, app_password))
        elif status:
            self.stdout.write("\n".join(_describe()))
        else:
            count = retract_all(None, timezone.now())
            self.stdout.write(f"The worker deletes {count:,} records now. Copies that others made may stay.")

    def _connect(self, name: str, by_password: bool) -> str:
        if settings.PUBLIC_ORIGIN and not by_password:
            return BY_GRANT.format(origin=settings.PUBLIC_ORIGIN, name=name)
        password = _ask_password()
        with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
            try:
                account = connect_password(name, password, DpopSender(fetcher), timezone.now())
            except ConnectProblem as problem:
                raise CommandError(f"Not connected: {problem}.", returncode=2) from problem
        return f"This site publishes as {account.handle or account.did} at {account.server.removeprefix('https://')}."


def _ask_password() -> str:
    """Read the app password from the terminal, or a line of standard input; it is never an argument, which all see."""
    text = getpass.getpass("App password: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise CommandError("No app password was given, so nothing was connected.", returncode=2)
    return text.strip()


def _describe() -> list[str]:
    account = service_account()
    if account is None:
        return ["No account is connected, so nothing is published."]
    counts, now = count_records(), timezone.now()
    how = "with an app password" if account.sealed else "by a grant"
    lines = [
        f"{account.handle or account.did} at {account.server.removeprefix('https://')}, {how}.",
        f"{counts.public:,} assessments are public, {counts.to_write:,} records wait to be written, "
        f"{counts.to_delete:,} to be deleted.",
        f"{points_spent(now, timedelta(hours=1)):,} of {HOUR:,} points were spent in the last hour.",
    ]
    lines += [f"The definition of the label is {uri}."] if (uri := label_definition()) else []
    lines += ["Everything is being taken back."] if account.retracting else []
    lines += [account.problem] if account.problem else []
    lines += [refused] if (refused := describe_refused()) else []
    return lines + _ask_server(account)


def _ask_server(account: ServiceAccount) -> list[str]:
    with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
        return [sentence for _, sentence in look_at(account, DpopSender(fetcher))]
