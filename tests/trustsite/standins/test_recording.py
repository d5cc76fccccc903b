"""Recordings: what is read, in which order, and the sentence for each folder that cannot be served."""

import gzip
import json
from pathlib import Path

import pytest

from ingest.stream.frames import EARLIEST_US, LATEST_US
from tests.trustsite.standins.recordings import FIRST_US, MARA, commit, small
from trustsite.standins.recording import RecordingProblem, open_recording, write_recording


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recording(tmp_path / "recording", small())
    return tmp_path / "recording"


def problem(folder: Path) -> str:
    with pytest.raises(RecordingProblem) as raised:
        open_recording(folder)
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_what_is_written_is_read_back(folder: Path) -> None:
    read, written = open_recording(folder), small()
    assert read.frames == written.frames
    assert read.times == list(range(FIRST_US, FIRST_US + 8))
    assert read.collections == written.collections
    assert dict(read.blobs) == dict(written.blobs)
    assert (read.people, read.repositories) == (written.people, written.repositories)
    assert read.last_time_us == FIRST_US + 7


def test_the_same_recording_is_written_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_recording(tmp_path / "again", small())
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    assert open_recording(folder).fingerprint == open_recording(tmp_path / "again").fingerprint


def test_another_frame_gives_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "frames.jsonl").write_bytes(commit(1, MARA, "a.b", "one"))
    before = open_recording(tmp_path).fingerprint
    (tmp_path / "frames.jsonl").write_bytes(commit(2, MARA, "a.b", "one"))
    assert open_recording(tmp_path).fingerprint != before


def test_bare_files_are_served_together_in_time_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(commit(3, MARA, "a.b", "3") + b"\n" + commit(1, MARA, "a.b", "1"))
    (tmp_path / "b.ndjson").write_bytes(commit(2, MARA, "a.b", "2") + b"\n\n")
    (tmp_path / "notes.txt").write_text("not a frame")
    read = open_recording(tmp_path)
    assert [json.loads(frame)["commit"]["rkey"] for frame in read.frames] == ["1", "2", "3"]


def test_a_line_that_is_no_frame_keeps_its_place(tmp_path: Path) -> None:
    lines = [b"torn", commit(1, MARA, "a.b", "1"), b'{"did": "did:plc', b"\xff\xfe", commit(2, MARA, "a.b", "2"), b"[]"]
    (tmp_path / "frames.jsonl").write_bytes(b"\n".join(lines))
    read = open_recording(tmp_path)
    assert read.frames == lines
    assert read.times == [FIRST_US + 1] * 4 + [FIRST_US + 2] * 2
    assert read.collections == [None, "a.b", None, None, "a.b", None]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    sentence = problem(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in sentence
    assert "give the path" in sentence


def test_a_folder_without_frames_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    assert "holds no recorded frames: it needs frames.ndjson.gz" in problem(tmp_path)


def test_a_recording_whose_frames_file_is_empty_is_refused(folder: Path) -> None:
    (folder / "frames.ndjson.gz").write_bytes(gzip.compress(b""))
    assert "holds no frames" in problem(folder)


@pytest.mark.parametrize("name", ["blobs.parquet", "plc.ndjson.gz", "repos.ndjson.gz"])
def test_a_missing_companion_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{name} is missing: copy the whole recording" in problem(folder)


@pytest.mark.parametrize("name", ["frames.ndjson.gz", "plc.ndjson.gz"])
def test_a_cut_gzip_file_is_told_from_a_damaged_one(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    assert f"{name} ends too early" in problem(folder)
    (folder / name).write_bytes(whole[:20] + bytes(20) + whole[40:])
    assert f"{name} is damaged" in problem(folder)
    (folder / name).write_bytes(b"no gzip at all")
    assert f"{name} is damaged or no gzip file" in problem(folder)


def test_every_byte_that_flips_in_the_frames_is_noticed_or_harmless(folder: Path) -> None:
    path = folder / "frames.ndjson.gz"
    whole = path.read_bytes()
    for place in range(10, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert path.name in problem(folder)


@pytest.mark.parametrize("data", [b"", b"PAR1 but not really PAR1"])
def test_an_unreadable_parquet_file_is_named(folder: Path, data: bytes) -> None:
    (folder / "blobs.parquet").write_bytes(data)
    assert "blobs.parquet is not a Parquet file with the columns did, cid and data" in problem(folder)


def test_a_damaged_row_about_people_names_its_line(folder: Path) -> None:
    (folder / "plc.ndjson.gz").write_bytes(gzip.compress(b'{"did": 5}\n'))
    assert "plc.ndjson.gz, line 1, cannot be read" in problem(folder)


def test_the_real_recording_opens_whole(shared: Path) -> None:
    read = open_recording(shared / "data" / "replay")
    assert (len(read.frames), len(read.blobs), len(read.people), len(read.repositories)) == (9622, 4691, 1218, 4)
    assert read.times == sorted(read.times)
    assert None not in read.collections


def test_the_recorded_live_frames_open_in_time_order(shared: Path) -> None:
    read = open_recording(shared / "examples" / "jetstream")
    assert len(read.frames) == 162 + 8
    assert read.times == sorted(read.times)
    assert all(did is not None for did in read.dids)


@pytest.mark.parametrize("time_us", [0, -1, EARLIEST_US - 1, LATEST_US + 1, 10**18, 10**30])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_time_that_no_reader_accepts_is_no_time(tmp_path: Path, time_us: int, place: int) -> None:
    lines = [commit(1, MARA, "a.b", "1"), commit(2, MARA, "a.b", "2")]
    wrong = json.dumps(json.loads(lines[0]) | {"time_us": time_us}).encode()
    lines.insert(place, wrong)
    (tmp_path / "frames.jsonl").write_bytes(b"\n".join(lines))
    read = open_recording(tmp_path)
    assert read.frames == lines
    assert read.times[place] == FIRST_US + max(place, 1)
    assert read.last_time_us == FIRST_US + 2
    assert (read.collections[place], read.dids[place]) == (None, None)


def test_the_first_and_the_last_moment_that_a_reader_accepts_are_times(tmp_path: Path) -> None:
    heads = [json.loads(commit(1, MARA, "a.b", "1")) | {"time_us": time_us} for time_us in (EARLIEST_US, LATEST_US)]
    (tmp_path / "frames.jsonl").write_text("\n".join(map(json.dumps, heads)))
    assert open_recording(tmp_path).times == [EARLIEST_US, LATEST_US]
