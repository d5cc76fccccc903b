"""`manage.py label_key`: show or replace the key with which this site signs labels."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.labels.keys import LabelKeyProblem, read_key, rotate_key
from ingest.labels.signing import did_of


class Command(BaseCommand):
    """Change the key file of this drive; the label server and the DID document read it anew each time."""

    help = "Show the public key and the DID of this site's labels, or replace the key."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rotate", action="store_true", help="make a new key; labels are signed anew when sent")

    def handle(self, *args: object, rotate: bool, **options: object) -> None:
        try:
            key = rotate_key(settings.LABEL_KEY) if rotate else read_key(settings.LABEL_KEY)
        except LabelKeyProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        name = did_of(settings.PUBLIC_ORIGIN) if settings.PUBLIC_ORIGIN else "PUBLIC_ORIGIN is not set: no DID yet"
        self.stdout.write(f"{name}  {key.public}")
