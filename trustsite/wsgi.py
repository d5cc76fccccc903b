"""The web process for a WSGI server (`waitress-serve trustsite.wsgi:application`); a problem ends it in words."""

import os
import sys

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from environs import EnvError

from trustsite import drive
from trustsite.command_line import sentence_of
from trustsite.logs import keep_log

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
os.umask(drive.PRIVATE)
try:
    drive.require(settings.PLACE)
    drive.require_keys(settings.ROOT)
except (drive.DriveProblem, EnvError) as problem:
    sys.stderr.write(f"{sentence_of(problem) if isinstance(problem, EnvError) else problem}\n")
    sys.exit(2)

application = get_wsgi_application()
keep_log("web")

from triage.http_cache import start_preparing  # noqa: E402 - it reads the models, which are there from here on

start_preparing()
