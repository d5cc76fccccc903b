"""`manage.py sample_stream` beside a stream: it needs no drive, writes nothing, and says what it saw."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.ingest.stream.frames import ANA, MARA, STRANGER, Frames
from tests.trustsite import runs
from tests.trustsite.ports import free_port
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import Recording, make_recording

NEW = "sh.tangled.brand.new"


@pytest.fixture(scope="module")
def recording() -> Recording:
    frames = Frames()
    for number in range(20):
        frames.vouch(ANA, f"did:plc:{number:024d}", surprise=number)
    frames.commit(MARA, NEW, "1", {"title\x1b[31m": "x"})
    frames.identity(STRANGER)
    return make_recording(frames, {}, (), ())


def test_it_prints_what_it_saw_as_json_without_a_drive(recording: Recording, tmp_path: Path) -> None:
    with Jetstream(recording) as server:
        url = f"--url={server.url}"
        status, out, err = runs.run(
            "sample_stream", "--seconds=1", "--back=9999999", url, "--json", DATA_ROOT=None, HOME=tmp_path
        )
    assert status == 0, err
    told = json.loads(out)
    assert told["frames"] == 22
    found = told["collections"]["sh.tangled.graph.vouch"]
    assert found["operations"] == {"create": 20}
    assert found["fields"]["surprise"] == {"seen": 20, "types": {"integer": 20}}
    assert "surprise" in found["unknown_fields"]
    assert told["collections"][NEW]["registered"] is False
    assert list(tmp_path.iterdir()) == []


def test_it_prints_text_for_people_in_which_no_name_moves_their_cursor(
    recording: Recording, settings: Settings
) -> None:
    dead, out, err = f"ws://127.0.0.1:{free_port()}/subscribe", StringIO(), StringIO()
    with Jetstream(recording) as server:
        settings.JETSTREAM_URLS = [dead, server.url]
        call_command("sample_stream", "--seconds=1", "--back=9999999", stdout=out, stderr=err)
    assert "cannot be listened to" in err.getvalue()
    assert f"? {NEW}: 1 create" in out.getvalue()
    assert "  ? surprise  in 20 of 20: integer 20" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "title\\u001b[31m" in out.getvalue()


def test_a_stream_that_cannot_be_heard_is_an_error_in_words() -> None:
    dead, out = f"ws://127.0.0.1:{free_port()}/subscribe", StringIO()
    with pytest.raises(CommandError, match="name a server with --url") as problem:
        call_command("sample_stream", "--seconds=1", f"--url={dead}", stdout=out, stderr=StringIO())
    assert (problem.value.returncode, out.getvalue()) == (1, "")


@pytest.mark.parametrize("seconds", ["0", "-5", "1e9", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(CommandError, match="between 0 and 86400"):
        call_command("sample_stream", f"--seconds={seconds}")
