"""Engines that speak Spark Connect, as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.trustsite.ports import free_port, is_taken
from tests.waiting import LONG_SECONDS, wait_for

SAIL = "from pysail.cli import main; main()"


@contextmanager
def sail(folder: Path, project: Path | None = None) -> Generator[str]:
    with sail_process(folder, project) as (address, _):
        yield address


@contextmanager
def sail_process(folder: Path, project: Path | None = None) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
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
            yield f"sc://127.0.0.1:{port}", engine
        finally:
            engine.kill()
            engine.wait()


@contextmanager
def spark(
    folder: Path, home: Path, project: Path | None = None
) -> Generator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a real Spark, below `home`, and its two workers: a master, workers and executors of their own.

    Its machines are this one, with Python as it runs here.
    """
    ports = [free_port() for _ in range(3)]
    master, pages, port = ports
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_REMOTE")}
    environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_MEMORY": "600m", "SPARK_WORKER_DIR": str(folder / "work")}
    environment |= {"PYTHONPATH": str(project)} if project else {}
    java_class, deploy = str(home / "bin" / "spark-class"), "org.apache.spark.deploy"
    at = ["--host", "127.0.0.1"]
    url = f"spark://127.0.0.1:{master}"
    server = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "8",
        **({"spark.executorEnv.PYTHONPATH": str(project)} if project else {}),
    }
    settings = [word for name, value in server.items() for word in ("--conf", f"{name}={value}")]
    connect = "org.apache.spark.sql.connect.service.SparkConnectServer"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *command: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as words:
            child = subprocess.Popen(command, cwd=folder, env=environment, stdout=words, stderr=words)
        started.append(child)
        return child

    try:
        start("master", java_class, f"{deploy}.master.Master", *at, "--port", str(master), "--webui-port", str(pages))
        wait_for(lambda: is_taken(master), LONG_SECONDS * 2, "the master of Spark")
        resources = ("--cores", "1", "--memory", "600m", "--webui-port", "0")
        worker = (java_class, f"{deploy}.worker.Worker", *at, *resources, url)
        workers = [start(f"worker{number}", *worker) for number in range(2)]
        submit = (str(home / "bin" / "spark-submit"), "--master", url, "--class", connect)
        start("connect", *submit, *settings, "spark-internal")
        wait_for(lambda: is_taken(port), LONG_SECONDS * 5, "Spark Connect")
        yield f"sc://127.0.0.1:{port}", workers
    finally:
        for child in reversed(started):
            child.terminate()
        for child in started:
            child.wait()
