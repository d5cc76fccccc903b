"""The files of long texts: written before the rows that name them, swept, checked and never read through a link."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.store.long_texts import LongTexts, TextLost, bytes_of
from ingest.stream.load import load
from ingest.stream.reread_letters import retry_dead_letters
from tests.ingest.store.long_records import BODIES, files, long_pull
from tests.ingest.stream.frames import ANA, MARA, SOURCE, Frames, letters, pull_uri, rows, settled
from tests.sources import PROJECT

KILLED = """
import os, sys
from pathlib import Path
from ingest.stream.load import load
from ingest.store.database import Store
from tests.ingest.stream.frames import SOURCE
from tests.ingest.store.long_records import angle_brackets, author
store = Store.open(Path(sys.argv[1]))
store.bind(SOURCE)
load(store, SOURCE, [angle_brackets(author(1), 1)])
try:
    with store.write() as txn:
        txn.long_texts.keep("never committed " * 1000)
        (store.long_texts.folder / "ab").mkdir(exist_ok=True)
        (store.long_texts.folder / "ab" / ".draft-x").write_text("half")
        os._exit(9)
finally:
    os._exit(1)
"""


def test_a_kill_loses_no_text_that_was_committed_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=PROJECT, check=False)
    assert done.returncode == 9
    assert len(list(LongTexts(path).folder.glob("??/*"))) == 3
    store = Store.open(path)
    ((body,),) = rows(store, BODIES)
    assert len(store.long_texts.read(body)) == bytes_of(body) > 5_900_000
    assert len(files(store)) == 1
    store.close()


def test_a_text_whose_file_is_damaged_or_gone_is_a_dead_letter_until_it_is_back(store: Store) -> None:
    frames = Frames()
    frames.repository(ANA)
    for name in ("whole", "damaged", "gone"):
        long_pull(frames, MARA, name, name * 2_000)
    load(store, SOURCE, frames)
    _, damaged, gone = (store.long_texts._path(body) for (body,) in rows(store, f"{BODIES} offset 1"))
    kept = {path: path.read_bytes() for path in (damaged, gone)}
    damaged.write_bytes(kept[damaged][:-9] + b"123456789")
    gone.unlink()
    settled(store)
    assert rows(store, "select pull_uri from pull_requests") == [(pull_uri(MARA, "whole"),)]
    assert [" ".join(reason.split()[:5]) for reason in letters(store)] == ["the file of its text"] * 2
    for path, data in kept.items():
        path.write_bytes(data)
    assert retry_dead_letters(store).left == 0
    assert rows(store, "select count(*) from pull_requests") == [(3,)]


TEXT = "y" * 5_000


def hash_folder(texts: LongTexts) -> Path:
    """The folder that TEXT's file belongs to."""
    texts.folder.mkdir()
    return texts.folder / hashlib.sha256(TEXT.encode()).hexdigest()[:2]


@pytest.mark.parametrize("place", ["hash folder", "whole folder"])
def test_a_link_in_place_of_a_folder_is_neither_swept_nor_read_nor_written_through(tmp_path: Path, place: str) -> None:
    outside, texts = LongTexts(tmp_path / "other.duckdb"), LongTexts(tmp_path / "trust.duckdb")
    outside.keep(TEXT)
    folder = hash_folder(texts)
    (outside.folder / folder.name / "precious.txt").write_text("keep me")
    if place == "hash folder":
        folder.symlink_to(outside.folder / folder.name)
    else:
        texts.folder.rmdir()
        texts.folder.symlink_to(outside.folder)
    before = sorted(outside.folder.glob("??/*"))
    assert texts.is_empty()
    assert texts.files() == frozenset()
    assert texts.sweep([]) == 0
    with pytest.raises(StoreProblem, match="is not a plain folder, so no long text can be stored in it: move it away"):
        texts.keep(TEXT)
    assert sorted(outside.folder.glob("??/*")) == before
    assert len(before) == 2


def test_a_sweep_removes_only_plain_files_with_the_names_of_long_texts(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    texts.keep(TEXT)
    (folder,) = texts.folder.iterdir()
    (folder / ".draft-abcd1234").write_bytes(b"cut")
    (folder / "notes.txt").write_text("of somebody else")
    (folder / "sub").mkdir()
    (folder / f"{'0' * 64}.zst").symlink_to(folder / "notes.txt")
    (texts.folder / "ff.txt").write_text("beside")
    assert texts.sweep([]) == 2
    assert sorted(path.name for path in folder.iterdir()) == [f"{'0' * 64}.zst", "notes.txt", "sub"]
    assert texts.is_empty()


def test_a_file_in_place_of_a_folder_or_a_folder_in_place_of_a_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    folder = hash_folder(texts)
    folder.write_text("a file")
    assert texts.sweep([]) == 0
    with pytest.raises(StoreProblem, match=f"{folder} is not a plain folder"):
        texts.keep(TEXT)
    folder.unlink()
    reference = texts.keep(TEXT)
    (path,) = folder.iterdir()
    path.unlink()
    path.mkdir()
    assert texts.sweep([]) == 0
    with pytest.raises(TextLost, match=str(path)):
        texts.read(reference)
    with pytest.raises(StoreProblem, match=f"{path} is a folder where the file of a long text belongs"):
        texts.keep(TEXT)


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "another text", "link"])
def test_a_damaged_file_is_healed_when_its_text_arrives_again(tmp_path: Path, damage: str) -> None:
    texts = LongTexts(tmp_path / "trust.duckdb")
    reference = texts.keep(TEXT)
    (path,) = texts.folder.glob("??/*")
    whole = path.read_bytes()
    path.unlink()
    if damage == "link":
        path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"mine")
    else:
        other = bytes(pa.compress(b"z" * 5_000, codec="zstd", asbytes=True))
        path.write_bytes({"empty": b"", "cut": whole[:-3], "garbage": b"garbage", "another text": other}[damage])
    with pytest.raises(TextLost):
        texts.read(reference)
    assert texts.keep(TEXT) == reference
    assert texts.read(reference) == TEXT
    assert not path.is_symlink()
    assert damage != "link" or (tmp_path / "elsewhere").read_bytes() == b"mine"
