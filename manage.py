#!/usr/bin/env python3
"""The one command line of Sunstead: what has state refuses a bad drive in one sentence, before any file is opened."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from environs import EnvError

from trustsite import drive
from trustsite.bad_settings import sentence_of


def main() -> None:
    """Run the command in `sys.argv`; exit 2 with one sentence on stderr where the drive or a setting is wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    try:
        place: drive.Place = settings.PLACE
        if drive.needs_state(sys.argv):
            drive.require(place)
            os.environ.update(drive.child_environment(place.root))
        execute_from_command_line(sys.argv)
    except drive.DriveProblem as problem:
        _refuse(str(problem))
    except EnvError as problem:
        _refuse(sentence_of(problem))
    except NotADirectoryError as problem:
        if str(drive.UNSET) not in str(problem.filename):
            raise
        _refuse(f"{drive.UNSET.name}: `{sys.argv[1]}` has nowhere to write, export DATA_ROOT=/path/to/a/folder.")


def _refuse(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
