"""Failures are told in words that name no error number."""

import errno
import os
import socket
import subprocess
import sys

import msgspec
import pytest

from ingest.errors import LONGEST, WORDS, plain
from ingest.json_decoding import decode_json
from tests.sources import PROJECT


@pytest.mark.parametrize("number", WORDS)
def test_an_error_of_the_system_has_words_of_ours(number: int) -> None:
    assert plain(OSError(number, os.strerror(number), "/srv/x")) == WORDS[number]


def test_of_several_failed_addresses_the_first_is_told() -> None:
    several = (
        "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 101] Network is unreachable"
    )
    assert plain(OSError(several)) == WORDS[errno.ECONNREFUSED]


def test_a_name_that_is_not_known_and_a_silent_host_are_told_as_that() -> None:
    assert plain(socket.gaierror(-2, "Name or service not known")).startswith(
        "DNS finds no such name: check the network first"
    )
    assert plain(TimeoutError()) == "it took too long to answer"


def test_any_other_error_is_one_bounded_line_and_never_empty() -> None:
    assert plain(ConnectionResetError("the peer closed the socket")) == "the peer closed the socket"
    assert plain(ValueError("a\nb " * 1_000)) == ("a b " * 1_000)[:LONGEST]
    assert plain(ValueError()) == "ValueError"
    assert plain(ValueError("IO Error: no such file")) == "no such file"
    assert plain(FileNotFoundError(2, "No such file or directory", "/a/b")) == "No such file or directory: /a/b"


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
