"""Runs Python programs of the project to their end."""

import subprocess
import sys
from collections.abc import Mapping

from tests.sources import PROJECT


def run_python(
    *arguments: str, timeout: float | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A whole run of a Python program in the project's folder."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=timeout, check=False)
