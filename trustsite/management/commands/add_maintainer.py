"""`manage.py add_maintainer`: add a judge for some repositories or the whole site, and print a sign-in link."""

import re

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from ingest.atproto.identity import resolve_handle, why_unresolved
from ingest.atproto.syntax import MalformedDid, parse_account, parse_handle
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.store.snapshots import Snapshot, SnapshotReader
from scoring.queries import read
from triage.access.permissions import LastAdmin, keep_watched, set_role
from triage.access.sign_in import issue_link, person_for
from triage.access.tokens import own_origin
from triage.models import Maintainer
from triage.models.accounts import usual_role
from trustsite.command_line import known_did
from trustsite.worker.handover import REPLY_SECONDS, hand_over_job

MINUTES = 15
REPOSITORY = re.compile(r"at://[^/\s]+/[^/\s]+/[^/\s]+|(?:did:[^/\s]+|[^/\s:]+)/[^/\s]+")


class Command(BaseCommand):
    """Add a maintainer, make the worker watch their repositories, and print a sign-in link that works once."""

    help = "Add a maintainer and the repositories they judge for; prints a one-time sign-in link (15 minutes)."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", metavar="HANDLE_OR_DID", help="for example ana.example.com or did:plc:…")
        parser.add_argument(
            "--repo",
            metavar="REPO",
            action="extend",
            nargs="+",
            default=[],
            help="a repository to watch: OWNER/NAME (OWNER a handle or DID), or the at-uri of its record; without one, "
            "the whole site",
        )
        parser.add_argument(
            "--role",
            choices=Maintainer.Role.values,
            help="viewer (reads, not a seed), maintainer or admin. Without it maintainers and admins keep their role, "
            "and others become maintainer of a repository or admin of the whole site",
        )

    def handle(self, *args: object, who: str, repo: list[str], role: str | None, **options: object) -> None:
        """Do all of it, or raise CommandError in one sentence with no account made."""
        call_command("migrate", verbosity=0, interactive=False)
        repositories = [_check_repository(text) for text in dict.fromkeys(repo)]
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            did, handle = _identify(who, snapshot)
            watched, records = (
                (_known_keys(snapshot, repositories), [])
                if role == Maintainer.Role.VIEWER
                else self._watch(did, repositories)
            )
            try:
                with transaction.atomic():
                    person = person_for(did, snapshot, handle)
                    for record in records:
                        keep_watched(record, timezone.now())
                    keys = watched if repositories else [""]
                    for key in keys:
                        current_role = Maintainer.objects.filter(person=person, repo_key=key).first()
                        if role is not None or current_role is None or current_role.role == Maintainer.Role.VIEWER:
                            set_role(None, person, key, role or usual_role(key), timezone.now())
            except LastAdmin as problem:
                raise CommandError(str(problem), returncode=2) from problem
        shown = f"{person} ({did})" if person.handle else did
        action = "reads" if role == Maintainer.Role.VIEWER else "maintains"
        self.stderr.write(f"{shown} {action} {', '.join(repositories) or 'the whole site'}.")
        self.stderr.write(f"This link signs in once, within {MINUTES} minutes:")
        self.stdout.write(link_address(issue_link(person, MINUTES)))

    def _watch(self, did: str, repositories: list[str]) -> tuple[list[str], list[str]]:
        """Make the worker record maintainer and repositories; return repository keys and at-uris of records."""
        arguments = {"did": did, "repositories": repositories}
        # An owner is looked up with at most five requests between two progress messages.
        silent_seconds = max(REPLY_SECONDS, 6 * settings.FETCH_TIMEOUT_SECONDS)
        result = hand_over_job(
            "add_maintainer", arguments, lambda progress: self.stderr.write(progress["step"]), silent_seconds
        )
        return result["keys"], result["records"]


def _identify(text: str, snapshot: Snapshot | None) -> tuple[str, str | None]:
    """Return the DID and, if one was given, the handle of this person."""
    if text.startswith("did:"):
        try:
            return parse_account(text), None
        except MalformedDid as problem:
            raise CommandError(str(problem), returncode=2) from problem
    handle = parse_handle(text)
    if handle is None:
        raise CommandError(f"{text!r} is not a handle (such as ana.example.com) or a DID.", returncode=2)
    return known_did(handle, snapshot) or _resolved_did(handle), handle


def _resolved_did(handle: str) -> str:
    fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
    try:
        return resolve_handle(fetcher, handle)
    except FetchProblem as problem:
        why = why_unresolved(fetcher, settings.PLC_URL, handle, problem, did_suffices=True)
        raise CommandError(why) from problem


def _check_repository(text: str) -> str:
    if text.startswith("did:") and "/" not in text:
        raise CommandError(
            f"{text!r} is a repository's bare DID: name it as OWNER/NAME or by the at-uri of its record: "
            "anybody can claim a DID, the owner must be your word."
        )
    if not REPOSITORY.fullmatch(text):
        raise CommandError(f"{text!r} is not a repository: write OWNER/NAME or the at-uri of its record.")
    return text


def _known_keys(snapshot: Snapshot | None, names: list[str]) -> list[str]:
    """Return the keys of watched repositories. Raises CommandError for others: a viewer starts no watch."""
    watched = (
        {repository.key: repository.name for repository in read.watched_repositories(snapshot)} if snapshot else {}
    )
    keys = [read.repository_key(snapshot, name) if snapshot else None for name in names]
    for name, key in zip(names, keys, strict=True):
        if key not in watched:
            raise CommandError(f"{name[:200]} is not watched here: add a maintainer of it first.", returncode=2)
    return [key for key in keys if key is not None]


def link_address(token: str) -> str:
    """Return the link's address: under the site's public name if it has one, since secure cookies are bound to it."""
    return own_origin() + reverse("sign_in_link", args=[token])
