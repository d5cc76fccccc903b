"""Settings that could never work are refused at the start, in one sentence; an empty one means its default."""

from pathlib import Path

import pytest

from tests.conftest import Manage
from tests.test_docs import settings_under

PATHS = ("DUCKDB_PATH", "PYG_ROOT", "STAGING_DIR", "DIFF_CORPUS_DIR", "MODEL_DIR", "LOG_DIR")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRIOR_CLEAN_RATE", "0"),
        ("PRIOR_CLEAN_RATE", "1"),
        ("FALSE_APPROVAL_BUDGET", "0"),
        ("FALSE_APPROVAL_BUDGET", "1"),
        ("FALSE_APPROVAL_DELTA", "0"),
        ("FALSE_APPROVAL_DELTA", "1"),
        ("TRUST_VOUCH_WEIGHT", "0"),
        ("TRUST_EVIDENCE_WEIGHT", "1.5"),
        ("TRUST_FAST_LANE", "-0.1"),
        ("TRUST_TWO_WAYS", "perhaps"),
        ("T_HIGH", "1.5"),
        ("T_HIGH", "nan"),
        ("LOG_LEVEL", "LOUD"),
        ("JETSTREAM_URLS", ""),
        ("JETSTREAM_URLS", "wss://stream.example.test/subscribe,"),
        ("JETSTREAM_URLS", "https://stream.example.test/subscribe"),
        ("PLC_URL", "plc.directory"),
        ("TRUSTED_PROXY", "*"),
        ("TRUSTED_PROXY", "proxy.example.test"),
        *((name, "relative/path") for name in PATHS),
    ],
)
def test_a_setting_that_can_never_work_is_refused_in_one_sentence(
    manage: Manage, tmp_path: Path, name: str, value: str
) -> None:
    result = manage("version", DATA_ROOT=tmp_path, **{name: value})
    assert (result.returncode, result.stdout) == (2, "")
    assert name in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


def test_a_fast_lane_that_begins_below_the_human_one_is_refused_naming_both(manage: Manage, tmp_path: Path) -> None:
    result = manage("version", DATA_ROOT=tmp_path, T_HIGH="0.4", T_LOW="0.5")
    assert (result.returncode, result.stdout) == (2, "")
    assert "T_HIGH=0.4 is below T_LOW=0.5" in result.stderr
    assert result.stderr.count("\n") == 1
    assert manage("version", DATA_ROOT=tmp_path, T_HIGH="0.5", T_LOW="0.5").returncode == 0


def test_a_content_risk_that_is_clear_and_alarming_at_once_is_refused(manage: Manage, tmp_path: Path) -> None:
    result = manage("version", DATA_ROOT=tmp_path, R_LOW="0.6", R_HIGH="0.6")
    assert (result.returncode, result.stdout) == (2, "")
    assert "R_HIGH=0.6 must be above R_LOW=0.6" in result.stderr


def test_merges_that_alone_would_make_somebody_trusted_are_refused_naming_both(manage: Manage, tmp_path: Path) -> None:
    result = manage("version", DATA_ROOT=tmp_path, TRUST_MERGE_WEIGHT="0.05", TRUST_MERGE_CAP="0.1")
    assert (result.returncode, result.stdout) == (2, "")
    assert "TRUST_MERGE_CAP=0.1 must be below TRUST_TRANSFER=0.1" in result.stderr
    assert result.stderr.count("\n") == 1
    assert manage("version", DATA_ROOT=tmp_path, TRUST_MERGE_WEIGHT="0.05").returncode == 0
    assert manage("version", DATA_ROOT=tmp_path, TRUST_MERGE_CAP="1").returncode == 0, "merges are no vouches"


def test_a_fast_lane_that_no_seeds_vouch_could_open_is_refused(manage: Manage, tmp_path: Path) -> None:
    result = manage("version", DATA_ROOT=tmp_path, TRUST_FAST_LANE="0.95")
    assert (result.returncode, result.stdout) == (2, "")
    assert "TRUST_FAST_LANE=0.95 is above 0." in result.stderr
    assert result.stderr.count("\n") == 1
    assert manage("version", DATA_ROOT=tmp_path, TRUST_FAST_LANE="0.8").returncode == 0


@pytest.mark.parametrize("names", [PATHS, ("T_HIGH",), ("TRUSTED_PROXY",)])
def test_an_empty_setting_is_its_default(tmp_path: Path, names: tuple[str, ...]) -> None:
    ground = {"DATA_ROOT": str(tmp_path)}
    assert settings_under({**ground, **dict.fromkeys(names, "")}) == settings_under(ground)


def test_streams_on_this_machine_and_elsewhere_are_taken_in_turn(tmp_path: Path) -> None:
    urls = ["ws://127.0.0.1:6008/subscribe", "ws://[::1]:6008/subscribe", "wss://stream.example.test/subscribe"]
    shown = settings_under({"DATA_ROOT": str(tmp_path), "JETSTREAM_URLS": ",".join(urls)})
    assert shown["JETSTREAM_URLS"] == urls
