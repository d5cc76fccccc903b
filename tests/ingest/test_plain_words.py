"""Failures are told in words that name no error number."""

import errno
import os
import socket

import pytest

from ingest.errors import LONGEST, WORDS, plain


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
