"""Engines that speak Spark Connect, as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.trustsite.ports import free_port, is_taken
from tests.waiting import wait_for

SAIL = "from pysail.cli import main; main()"


@contextmanager
def sail(folder: Path, project: Path | None = None) -> Generator[str]:
    """The address of a Sail whose driver and workers are threads that speak over RPC; its words go to `folder`.

    Its tasks see the project only where it is given.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SAIL_MODE": "local-cluster", "RUST_LOG": "warn"}
    environment |= {"PYTHONPATH": str(project)} if project else {}
    command = [sys.executable, "-P", "-c", SAIL, "spark", "server", "--port", str(port)]
    with (folder / "sail.log").open("wb") as words:
        engine = subprocess.Popen(command, cwd=folder, env=environment, stdout=words, stderr=words)
        try:
            wait_for(lambda: is_taken(port) or engine.poll() is not None, what="Sail")
            assert engine.poll() is None, (folder / "sail.log").read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            engine.kill()
            engine.wait()
