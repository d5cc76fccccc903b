"""`manage.py publish_lexicons`: publish the schemas of this site's records, so that anybody can look them up."""

from collections.abc import Iterator
from contextlib import closing

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.oauth.dpop import DpopSender
from ingest.oauth.resource import DataServer
from ingest.oauth.scopes import SCHEMA
from ingest.records.registry import documents, schema_host
from triage.access.oauth.keys import KeyProblem
from triage.access.oauth.sessions import SessionEnded
from triage.services.publishing.records import service_account
from triage.services.publishing.service_account import open_server

NOT_ALLOWED = "The account does not allow it: connect it again with “Also allow publishing the schemas”"


class Command(BaseCommand):
    """Write each schema as a record of the service account; one that stands there already is left alone."""

    help = "Publish the schemas and permission sets of this site's own records, under LEXICON_AUTHORITY."

    def handle(self, *args: object, **options: object) -> None:
        """Print each schema and the DNS record that leads to them. Raises CommandError in one sentence."""
        call_command("migrate", verbosity=0, interactive=False)
        account = service_account()
        if account is None:
            raise CommandError("No account is connected: `manage.py service_account --connect` first.", returncode=2)
        with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
            try:
                for line in _publish(open_server(account, DpopSender(fetcher))):
                    self.stdout.write(line)
            except SessionEnded as problem:
                raise CommandError("The grant has ended: connect the account again.", returncode=1) from problem
            except (FetchProblem, KeyProblem) as problem:
                sentence = NOT_ALLOWED if getattr(problem, "missing_scope", "") else str(problem)
                raise CommandError(f"{sentence[:1].upper()}{sentence[1:]}.", returncode=1) from problem
        host = schema_host(settings.LEXICON_AUTHORITY)
        self.stdout.write(f'They are found once the domain says so: {host} TXT "did={account.did}"')


def _publish(server: DataServer) -> Iterator[str]:
    for nsid, document in documents(settings.LEXICON_AUTHORITY).items():
        stored, schema = server.read_record(SCHEMA, nsid), dict(document)
        if stored is not None and stored.value == {"$type": SCHEMA, **schema}:
            yield f"{nsid} is published already."
            continue
        server.put_record(SCHEMA, nsid, schema, stored.cid if stored else None)
        yield f"{nsid} {'is published' if stored is None else 'is changed'}."
