"""The ground of every test: a DATA_ROOT that goes away, the real data beside the clone, a browser, the counts.

Loaded before Django's settings are read, which is why the environment is set while this module is imported.
"""

import atexit
import fcntl
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import hypothesis
import pytest
from django.conf import settings
from pytest_django import Settings

from tests.peers.network import RealNetwork
from tests.processes import run_python
from tests.sources import PROJECT, environment_names
from tests.triage.worlds.site import Site
from trustsite import drive
from trustsite.world import World, build_world

PROVE = os.environ.get("PROVE") == "1"
MEMORY_DISK, MEMORY_BYTES = Path("/dev/shm"), 8 * 2**30
RUN = "sunstead-tests-"


def _in_memory(disk: Path) -> bool:
    """Whether tests may lay their files there: memory is free for them, and what lies there may be executed."""
    try:
        volume = os.statvfs(disk)
        memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    except OSError:
        return False
    usable = os.access(disk, os.W_OK) and not volume.f_flag & os.ST_NOEXEC
    free = min(volume.f_bavail * volume.f_frsize, int(memory["MemAvailable"].split()[0]) * 1024)
    return usable and free >= MEMORY_BYTES


def _make_run_folder() -> None:
    """Gives this run and all its processes one folder for temporary files, and removes it when the run ends.

    Folders of killed runs go first: 740 of them once filled 15 GB of memory, and the kernel ended a later run.
    """
    # A store waits for the disk 20 times from its opening to its end: a fifth of the time of its test on a busy disk.
    in_memory = not PROVE and "TMPDIR" not in os.environ and _in_memory(MEMORY_DISK)
    parent = MEMORY_DISK if in_memory else Path(tempfile.gettempdir())
    for folder in parent.glob(f"{RUN}*"):
        with suppress(OSError), (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a run holds its own, and loses it however it ends
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=RUN, dir=parent))
    lock = (folder / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(lock.close)  # which also keeps it open until then
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


if "PYTEST_XDIST_WORKER" not in os.environ:
    _make_run_folder()
TEST_ROOT = Path(tempfile.mkdtemp(prefix="root-"))
CACHE = PROJECT / ".cache"  # git ignores it; pytest keeps its own there too
ASK_THE_PEERS = (
    "tests/trustsite/demo/test_live.py",
    "tests/ingest/lookups/test_real_attestations.py",
    "tests/ingest/backfill/test_real_peers.py",
    "tests/ingest/oauth/test_real_sign_in.py",
    "tests/ingest/oauth/test_real_acts.py",
    "tests/triage/access/oauth/test_real_sign_in.py",
    "tests/triage/access/oauth/test_real_leases.py",
    "tests/triage/acting/test_real_own_records.py",
    "tests/triage/acting/test_real_merging.py",
    "tests/triage/acting/test_real_taking_back.py",
    "tests/triage/acting/test_real_vouching.py",
    "tests/triage/morning/test_own_name_browser.py",
    "tests/triage/publishing/test_real_connecting.py",
    "tests/triage/publishing/test_real_kills.py",
    "tests/triage/publishing/test_real_lexicons.py",
    "tests/triage/publishing/test_real_publishing.py",
    "tests/ingest/oauth/test_real_consent_browser.py",
    "tests/ingest/oauth/test_real_merge.py",
)
Count = Callable[[int, int], int]
Look = TypeVar("Look")
Manage = Callable[..., subprocess.CompletedProcess[str]]


def _leave_the_users_drive() -> None:
    """Whatever the shell exports (also a DUCKDB_PATH of its own), tests see only their temporary folder."""
    for name in environment_names():
        os.environ.pop(name, None)
    os.environ.update(
        drive.child_environment(TEST_ROOT),
        DATA_ROOT=str(TEST_ROOT),
        DJANGO_SETTINGS_MODULE="trustsite.settings",
        API_REQUESTS_A_MINUTE="1000000",  # what a test asks of itself is no flood
        API_ANONYMOUS_A_MINUTE="1000000",
        BACKFILL_HOSTS="",  # a worker that a test starts asks nobody outside
        OPS_BIND="",  # nor does it take the one port that every other wants too
        # Threads of one training wait for each other on busy cores: two of them took 19 s of CPU where one takes 3.
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        # DuckDB plans in small pieces of memory. A process that keeps 100 of each size at hand, not 7, takes a tenth
        # less CPU for a scoring pass; those of xdist and of tests start after this.
        GLIBC_TUNABLES=os.environ.get("GLIBC_TUNABLES", "glibc.malloc.tcache_count=100"),
        # What hypothesis works out of Unicode (3 s of CPU in each process) and our sources; no failing case is kept.
        HYPOTHESIS_STORAGE_DIRECTORY=str(CACHE / "hypothesis"),
    )
    _keep_bytecode()
    drive.mark(TEST_ROOT)
    atexit.register(shutil.rmtree, TEST_ROOT, ignore_errors=True)


def _keep_bytecode() -> None:
    """Where no bytecode may lie beside the sources, it lies in the cache, also for the processes that tests start.

    Without any, each of them compiles Django, pyarrow and all of ours anew: .6 s of CPU for the smallest command, and
    each worker of pytest-xdist 8 s.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(CACHE / "bytecode"))
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have no later collection walk what lives to the end: modules and the tests themselves, a second of CPU a walk."""
    gc.freeze()
    gc.enable()


def _end_quietly() -> None:
    """Hush what DuckDB's binding says after the summary: 60 lines on module objects that pytest still holds."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


gc.disable()  # until all tests are found: nothing becomes garbage meanwhile, and walking it all took 2 s
atexit.register(_end_quietly)
_leave_the_users_drive()
if drive.Place("drive", TEST_ROOT) != settings.PLACE:  # reading it loads the settings, which pytest-django then sets up
    pytest.exit(f"Tests would touch {settings.PLACE.root}: unset DJANGO_SETTINGS_MODULE.", 2)
# A database in memory is one that threads share: a table that one writes is locked for the others, who do not wait.
settings.DATABASES["default"]["TEST"] = {"NAME": str(TEST_ROOT / "tests.sqlite3")}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let each worker process find its own folder: with this name it would load the settings of the first process."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """File by file, and those that ask the real peers to one process: to start them takes 7 s of CPU in each."""
    from xdist.scheduler import LoadFileScheduling  # a run without processes needs no xdist

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "the real peers" if file in ASK_THE_PEERS else file

    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First the folders whose files take longest, .5 to 80 s: begun last, they would leave one process waiting.

    What repeats another test is for `make prove`.
    """
    if not PROVE:
        items[:] = [item for item in items if item.get_closest_marker("repeats") is None]
    tests = PROJECT / "tests"
    items.sort(
        key=lambda item: (
            item.path.parent != tests and item.path.relative_to(tests).parts[0] not in ("trustsite", "attacks")
        )
    )


def count(small: int, full: int) -> int:
    """How many cases a test plays: `small` under `make test`, `full` under `make prove`."""
    return full if PROVE else small


def looks(*full: Look, small: Sequence[Look]) -> Sequence[Look]:
    """The ways of looking at a page that a test plays: `small` under `make test`, all under `make prove`."""
    return full if PROVE else small


# Without a deadline: on a shared machine of 2 cores a case that takes 1 ms alone was seen to take 300 ms.
# The same cases in every run, so that a red one is about the change; `make prove` searches for new ones.
hypothesis.settings.register_profile(
    "sunstead", deadline=None, max_examples=count(25, 1000), derandomize=not PROVE, database=None
)
hypothesis.settings.load_profile("sunstead")


@pytest.fixture(scope="session")
def prove() -> bool:
    """Whether the full counts are played (`make prove`)."""
    return PROVE


@pytest.fixture(scope="session", name="count")
def count_fixture() -> Count:
    """`count(small, full)`: the number of cases to play."""
    return count


@pytest.fixture(scope="module")
def as_a_program() -> Iterator[None]:
    """Have pyspark import: it takes a process whose main module has no file, as xdist's are, for its own doctests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "ps1", "", raising=False)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the clone; a clone without one skips, REQUIRE_SHARED=1 fails."""
    folder = PROJECT.parent / "shared"
    if not folder.is_dir():
        missing("REQUIRE_SHARED", f"no real data: {folder} is absent")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium browser; a machine without one skips, REQUIRE_BROWSER=1 fails."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        missing("REQUIRE_BROWSER", "no Chromium on the PATH (chromium, chromium-browser, google-chrome)")
    return found[0]


@pytest.fixture(scope="session")
def peer_modules() -> Path:
    """The folder with the reference's own code; without `make peers` this skips, REQUIRE_PEERS=1 fails."""
    modules = Path(os.environ.get("PEERS_DIR", ""))
    if shutil.which("node") is None:
        missing("REQUIRE_PEERS", "Node is not on the PATH")
    if not (modules / "node_modules" / "@atproto" / "pds").is_dir():
        missing("REQUIRE_PEERS", "the real peers are not installed: run `make peers`")
    return modules


@pytest.fixture(scope="session")
def web_ext(peer_modules: Path) -> Path:
    """The linter of browser extensions, which `make peers` installs too."""
    linter = peer_modules / "node_modules" / ".bin" / "web-ext"
    if not linter.exists():
        missing("REQUIRE_PEERS", "web-ext is not installed: run `make peers` again")
    return linter


@pytest.fixture(scope="session")
def real_network(peer_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNetwork]:
    """A real data server and PLC directory on loopback."""
    with RealNetwork(peer_modules, tmp_path_factory.mktemp("peers")) as network:
        yield network


def missing(variable: str, reason: str) -> NoReturn:
    """Skip for want of something on this machine; fail where the variable says that it has to be there."""
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def manage() -> Manage:
    """Runs `manage.py` as a child process: `manage("check", DATA_ROOT=folder)`; None takes a variable away."""

    def run(
        *arguments: str, prefix: tuple[str, ...] = (), timeout: float = 180, **environment: str | Path | None
    ) -> subprocess.CompletedProcess[str]:
        given, program = with_environment(environment), (str(PROJECT / "manage.py"), *arguments)
        if not prefix:
            return run_python(*program, timeout=timeout, env=given)
        command = [*prefix, sys.executable, *program]
        return subprocess.run(command, env=given, capture_output=True, text=True, timeout=timeout, check=False)

    return run


def for_all_workers(name: str, make: Callable[[Path], None], factory: pytest.TempPathFactory) -> Path:
    """The folder that `make` filled, made once for all processes of pytest-xdist; nobody may write to it afterwards."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed by a process that ends, however it ends
        if not folder.exists():
            half = factory.mktemp(f"half-{name}")
            make(half)
            half.rename(folder)
    return folder


@cache
def simulated_network() -> World:
    """The simulated network, for tests that only read it: built once a process, which takes .2 s of CPU."""
    return build_world()


@pytest.fixture(scope="session")
def demo_folder(manage: Manage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state that `manage.py demo --check` left: the simulated network, loaded by the real worker.

    It came after a demo that was killed: beside the folder, `told.json` says what was seen of both.
    """

    def make(root: Path) -> None:
        from tests.trustsite.runs import killed_demo  # which imports this module

        told = killed_demo(root)
        done = manage("demo", "--check", DATA_ROOT=root, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        (root / "told.json").write_text(json.dumps(told | {"check": done.stdout + done.stderr}))

    return for_all_workers("demo-state", make, tmp_path_factory) / "demo"


@pytest.fixture
def site(demo_folder: Path, tmp_path: Path, settings: Settings) -> Site:
    """A copy of that state for one test, which may write to it; the settings point at it."""
    folder = tmp_path / "site"
    shutil.copytree(demo_folder / "duckdb", folder / "duckdb")
    # Nobody writes into a snapshot that is finished. Copies, 114 MB each and held open by their readers, took 8 GB.
    shutil.copytree(demo_folder / "snapshots", folder / "snapshots", copy_function=os.link)
    settings.SNAPSHOT_DIR = folder / "snapshots"
    settings.DUCKDB_PATH = folder / "duckdb" / "trust.duckdb"
    settings.STREAM_CLOCK = True
    return Site(simulated_network().cast, folder)


def with_environment(changes: Mapping[str, str | Path | None]) -> dict[str, str]:
    """The environment of this process with `changes`; None takes a variable away."""
    merged = {**os.environ, **{name: str(value) for name, value in changes.items() if value is not None}}
    return {name: value for name, value in merged.items() if changes.get(name, value) is not None}
