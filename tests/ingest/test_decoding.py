"""Types are learned by one thread at a time."""

import subprocess
import sys

import msgspec
import pytest

from ingest.json_decoding import decode_json
from tests.sources import PROJECT

# In a process of its own, since what goes wrong ends the process; without the lock it does so in every run.
RACE = """
import sys, threading
from dataclasses import make_dataclass
import msgspec
from ingest.json_decoding import decode_json
sys.setswitchinterval(1e-6)
for number in range(40):
    held = [make_dataclass(f"Held{number}{place}", [("a", int)]) for place in range(20)]
    kind = make_dataclass(f"Kind{number}", [(f"f{place}", held[place]) for place in range(20)])
    data = msgspec.json.encode({f"f{place}": {"a": 1} for place in range(20)})
    together = threading.Barrier(4)
    def work():
        together.wait()
        assert decode_json(data, kind).f19.a == 1
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


class Pear(msgspec.Struct):
    """A type to decode."""

    name: str


def test_many_threads_may_be_the_first_to_decode_a_type() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_decodes_and_refuses_as_msgspec_does() -> None:
    assert decode_json(b'{"name": "conference"}', Pear) == Pear("conference")
    assert decode_json('["a"]', tuple[str, ...]) == ("a",)
    with pytest.raises(msgspec.ValidationError):
        decode_json(b'{"name": 1}', Pear)
