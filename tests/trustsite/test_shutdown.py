"""The worker ends within its bound whatever its parts do, shown with parts that never end."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.database import Store
from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS
from trustsite import drive
from trustsite.worker import worker
from trustsite.worker.worker import Part, cut_off, going_on, of_thread

# A whole worker with one part that never ends; with what is left of it the bounds are a tenth of a second and more.
STUCK = """
import threading, sys
import django; django.setup()
from trustsite.worker import worker as shutdown
from trustsite.worker.worker import Worker, stream_from_settings
never, is_stuck = threading.Event(), threading.Event()
shutdown.PARTS_SECONDS, shutdown.WHOLE_SECONDS = 0.5, 1.0
worker = Worker(stream_from_settings())
def hang(*_):
    is_stuck.set()
    never.wait()
if sys.argv[1] == "hop":
    worker.hops._tasks["derive_events"].task_class.execute = hang
if sys.argv[1] == "publisher":
    worker.publisher.stop = hang
    is_stuck.set()
threading.Thread(target=lambda: (is_stuck.wait(), worker.finish()), daemon=True).start()
worker.run()
"""


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def part(self, name: str, takes: float) -> Part:
        """One that ends so many seconds after the clock began."""

        def wait(seconds: float) -> bool:
            assert seconds >= 0
            has_ended = self.now + seconds >= 100.0 + takes
            self.now = max(self.now, 100.0 + takes) if has_ended else self.now + seconds
            return has_ended

        return Part(name, lambda: None, wait)


@given(st.lists(st.floats(0, 1e9)), st.floats(0, 100))
def test_all_parts_together_are_waited_for_no_longer_than_the_budget(takes: list[float], budget: float) -> None:
    clock = Clock()
    named = {f"part {number}": seconds for number, seconds in enumerate(takes)}
    left = going_on([clock.part(*told) for told in named.items()], budget, lambda: clock.now)
    assert clock.now <= 100.0 + budget + 1e-6
    assert set(left) >= {name for name, seconds in named.items() if seconds > budget + 1e-6}
    assert not {name for name, seconds in named.items() if seconds < budget - 1e-6}.intersection(left)


def test_a_thread_that_was_never_started_is_not_waited_for() -> None:
    assert going_on([of_thread(threading.Thread(name="idle"), lambda: None)], 0.0) == []


def test_a_process_that_does_not_end_in_time_is_left_and_one_that_does_is_not() -> None:
    left: list[int] = []
    has_ended = threading.Event()
    cut_off(has_ended, 0.0, left.append)
    assert left == [1]
    has_ended.set()
    cut_off(has_ended, 1e9, left.append)
    assert left == [1]


def test_the_bounds_are_those_that_are_promised() -> None:
    assert worker.PARTS_SECONDS < worker.WHOLE_SECONDS < 10


@pytest.mark.parametrize(
    ("stuck", "said"), [("hop", "Worker-"), ("publisher", "the worker did not stop in time and is cut off")]
)
def test_a_worker_with_a_part_that_never_ends_ends_and_leaves_a_store_that_opens(
    tmp_path: Path, stuck: str, said: str
) -> None:
    drive.mark(tmp_path)
    url = f"ws://127.0.0.1:{free_port()}/subscribe"
    told = {"DATA_ROOT": tmp_path, "JETSTREAM_URLS": url, "DJANGO_SETTINGS_MODULE": "trustsite.settings"}
    command = [sys.executable, "-c", STUCK, stuck]
    ended = subprocess.run(
        command,
        cwd=PROJECT,
        env=with_environment(told),
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert said in ended.stderr
    assert "jetstream" not in ended.stderr.partition("did not end in time")[0].rpartition("\n")[2]
    store = Store.open(tmp_path / "duckdb" / "trust.duckdb", key=drive.key(tmp_path, "tombstones").encode())
    with store.read() as rows:
        assert rows.value("select count(*) from ingest_state") == 1
    store.close()
