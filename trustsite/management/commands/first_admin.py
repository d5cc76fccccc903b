"""`manage.py first_admin`: print a one-time code with which the operator becomes the site's first admin."""

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from triage.access.admission import CODE_MINUTES, SignInProblem, make_code
from triage.access.tokens import own_origin


class Command(BaseCommand):
    help = f"Print a one-time code ({CODE_MINUTES} minutes) that makes whoever signs in with it the site's first admin."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        try:
            code = make_code(timezone.now())
        except SignInProblem as problem:
            raise CommandError(f"{problem.sentence} Or use manage.py add_maintainer.", returncode=2) from problem
        self.stderr.write(f"Type this code at {own_origin()}{reverse('begin')} within {CODE_MINUTES} minutes:")
        self.stdout.write(code)
