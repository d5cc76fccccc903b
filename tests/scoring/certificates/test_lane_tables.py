"""The table of thresholds beside its model answers questions without training, and whatever is none is told so."""

from collections.abc import Callable
from datetime import datetime
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.certificates.threshold_queries import (
    ENDING,
    FILE_LIMIT,
    STATISTICS,
    QuestionProblem,
    StoredTable,
    Table,
    answer_query,
    write_table,
)
from scoring.models.serving import LABEL
from scoring.models.storage import serve

MODEL = "ab" * 32
QUERY = "maximum lane share at false-approval rate <= 5%"
KEPT = StoredTable(
    "sunstead-lanes/1",
    MODEL,
    "label_clean_fix",
    (datetime(2025, 3, 1), datetime(2026, 3, 1)),
    thresholds=(0.9, 0.8, 0.7),
    sizes=(100.0, 200.0, 300.0),
    bad=(2.0, 9.0, 60.0),
    authors=(80.0, 120.0, 150.0),
    effective=(90.0, 150.0, 200.0),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of models in which one serves."""
    serve(tmp_path, LABEL, MODEL)
    write_table(tmp_path, KEPT)
    return tmp_path


def test_the_model_that_serves_is_asked(folder: Path) -> None:
    told = answer_query(folder, QUERY, 0.05)
    assert (told.threshold, told.model, told.label, told.pull_requests) == (0.8, MODEL, "label_clean_fix", 300)
    assert told.query == "maximum lane share at false-approval rate <= 0.05"
    assert told.statistics["flagged share"] == pytest.approx(1 / 3)
    assert told.statistics["false-alarm rate"] == pytest.approx(1 - 191 / 240)
    assert set(told.statistics) == set(STATISTICS)
    assert msgspec.json.decode(msgspec.json.encode(told))["window"][0] == "2025-03-01T00:00:00"


def test_what_no_threshold_fulfils_has_an_answer_too(folder: Path) -> None:
    told = answer_query(folder, "maximum lane share at false-approval bound <= 0.001", 0.05)
    assert (told.threshold, told.statistics) == (None, {})


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.unlink(), "has no table of thresholds: train again"),
        (lambda path: path.write_bytes(b"[" * 100_000), "cannot be read: train again"),
        (lambda path: path.write_bytes(b"{}" + b" " * (FILE_LIMIT + 1)), "cannot be read: train again"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"abab", b"cdcd")),
            "not that of the model that serves",
        ),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"[2.0,", b"[")), "not that of the model that serves"),
        (lambda path: path.with_name(f"{LABEL}.serving").unlink(), "No model serves yet"),
        (lambda path: path.with_name(f"{LABEL}.serving").write_text("../../etc"), "the pointer of label_clean_fix"),
    ],
)
def test_what_cannot_be_answered_from_is_one_sentence(
    folder: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    spoil(folder / f"{MODEL}{ENDING}")
    with pytest.raises(QuestionProblem, match=sentence):
        answer_query(folder, QUERY, 0.05)


def test_a_table_of_every_threshold_is_a_small_file_and_answers_fast(folder: Path) -> None:
    count = np.arange(10_001)
    columns = [1 - count / 10_000, 100.5 + count, 0.123456 * count, 50.0 + count, 60.123456 + count]
    write_table(
        folder,
        StoredTable(
            "sunstead-lanes/1", MODEL, LABEL, KEPT.window, *(tuple(one.tolist()) for one in columns), None, None
        ),
    )
    assert (folder / f"{MODEL}{ENDING}").stat().st_size < 1_000_000 < FILE_LIMIT
    assert answer_query(folder, QUERY, 0.05).threshold is not None
    assert set(Table.__dataclass_fields__) == {"thresholds", "sizes", "bad", "authors", "effective"}


def test_the_command_prints_the_answer_or_a_sentence(folder: Path, settings: Settings) -> None:
    settings.MODEL_DIR = folder
    out = StringIO()
    call_command("thresholds", *QUERY.split(), stdout=out)
    assert out.getvalue().startswith("80 % by label_clean_fix, on 300 settled pull requests\n")
    out = StringIO()
    call_command("thresholds", QUERY, "--json", stdout=out)
    assert msgspec.json.decode(out.getvalue())["threshold"] == 0.8
    with pytest.raises(CommandError, match="Ask for example") as refused:
        call_command("thresholds", "__import__('os')")
    assert refused.value.returncode == 2
