"""Settings that could never work are refused at the start, in one sentence; an empty one means its default.

They are read in this process, .3 s of CPU less a setting; that `manage.py` exits with that sentence is test_drive's.
"""

import os
import runpy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from environs import EnvError

from tests.sources import PROJECT
from trustsite.command_line import sentence_of
from trustsite.drive import DriveProblem

PATHS = ("DUCKDB_PATH", "PYG_ROOT", "STAGING_DIR", "DIFF_CORPUS_DIR", "MODEL_DIR", "LOG_DIR")


def read(root: Path, **environment: str) -> dict[str, Any]:
    """Every setting as `manage.py version` reads it with nothing but this environment."""
    whole = patch.dict(os.environ, {"DATA_ROOT": str(root), **environment}, clear=True)
    with whole, patch("sys.argv", ["manage.py", "version"]):
        found = runpy.run_path(str(PROJECT / "trustsite" / "settings.py"))
    return {name: value for name, value in found.items() if name.isupper()}


def refusal(root: Path, **environment: str) -> str:
    """What `manage.py` exits with there, in one line."""
    with pytest.raises((DriveProblem, EnvError)) as raised:
        read(root, **environment)
    told = sentence_of(raised.value) if isinstance(raised.value, EnvError) else str(raised.value)
    assert "\n" not in told
    return told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PEERS", "triage.other.example"),
        ("PEERS", ",".join(["did:plc:" + "a" * 24] * 2)),
        ("PEERS", ",".join(f"did:web:n{number}.example.org" for number in range(21))),
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
        ("WEBHOOK_URL", "http://hooks.example.test/"),
        ("WEBHOOK_URL", "https://hooks.example.test:65536/"),
        ("WEBHOOK_URL", "http://127.0.0.1:0/"),
        ("TRUSTED_PROXY", "proxy.example.test"),
        ("ANTHROPIC_BASE_URL", "http://api.anthropic.com"),
        ("ANTHROPIC_BASE_URL", "https://user@api.anthropic.com"),
        ("CLAUDE_PRICES", "claude-sonnet-4-6=3/15"),
        ("CLAUDE_PRICES", "claude-sonnet-4-6=3/15/nan/1"),
        ("CLAUDE_MODEL", ""),
        ("OPERATOR_CONTACT", "javascript:alert(1)"),
        ("OPERATOR_CONTACT", "http://site.example.test/"),
        ("OPERATOR_CONTACT", 'https://site.example.test/"onclick=x'),
        ("OPERATOR_CONTACT", "mailto:ana@site.example?subject=%0a"),
        ("OPERATOR_CONTACT", "ana@site.example"),
        ("OPERATOR_NAME", "Ana\u202e"),
        ("OPERATOR_NAME", "x" * 101),
        ("PUBLIC_ORIGIN", "http://triage.sunstead.org"),
        ("PUBLIC_ORIGIN", "https://triage.sunstead.org/"),
        ("PUBLIC_ORIGIN", "https://triage.sunstead.org:8443"),
        ("PUBLIC_ORIGIN", "https://sunstead"),
        ("PUBLIC_ORIGIN", "https://10.0.0.1"),
        ("PUBLIC_ORIGIN", "https://triage.local"),
        ("PUBLIC_ORIGIN", "https://triage.example"),
        ("LABELER_BIND", "8002"),
        ("BRIEFING_HOUR", "24"),
        ("ELEVENLABS_VOICE", "../v1/user"),
        ("REVIEW_DOLLARS_A_DAY", "-1"),
        *((name, "relative/path") for name in PATHS),
    ],
)
def test_a_setting_that_can_never_work_is_refused_in_one_sentence(tmp_path: Path, name: str, value: str) -> None:
    told = refusal(tmp_path, **{name: value})
    assert told.startswith(f"{name} cannot be used: ")
    assert told.endswith(". See .env.example.")
    assert not set("[]{}") & set(told)  # no list and no mapping of the program's own


def test_a_refused_setting_reads_as_a_sentence(tmp_path: Path) -> None:
    explained = ". See .env.example."
    told = refusal(tmp_path, REVIEWS_AN_HOUR="0")
    assert told == "REVIEWS_AN_HOUR cannot be used: must be greater than or equal to 1" + explained
    told = refusal(tmp_path, API_REQUESTS_A_MINUTE="many")
    assert told == "API_REQUESTS_A_MINUTE cannot be used: not a valid integer" + explained


def test_a_fast_lane_that_begins_below_the_human_one_is_refused_naming_both(tmp_path: Path) -> None:
    assert "T_HIGH=0.4 is below T_LOW=0.5" in refusal(tmp_path, T_HIGH="0.4", T_LOW="0.5")
    assert read(tmp_path, T_HIGH="0.5", T_LOW="0.5")["T_HIGH"] == 0.5


def test_labels_without_a_public_name_to_sign_them_are_refused(tmp_path: Path) -> None:
    bind = {"LABELER_BIND": "127.0.0.1:8002"}
    assert "LABELER_BIND needs PUBLIC_ORIGIN" in refusal(tmp_path, **bind)
    named = {"PUBLIC_ORIGIN": "https://triage.sunstead.org", "ALLOWED_HOSTS": "triage.sunstead.org"}
    assert read(tmp_path, **bind, **named)["LABELER_BIND"] == "127.0.0.1:8002"


def test_a_key_of_elevenlabs_without_a_voice_is_refused(tmp_path: Path) -> None:
    assert "ELEVENLABS_API_KEY needs ELEVENLABS_VOICE" in refusal(tmp_path, ELEVENLABS_API_KEY="sk_made_up")
    told = refusal(tmp_path, ELEVENLABS_API_KEY="sk_made_up")
    assert "sk_made_up" not in told
    assert read(tmp_path, ELEVENLABS_API_KEY="sk_made_up", ELEVENLABS_VOICE="abc")["ELEVENLABS_VOICE"] == "abc"


def test_a_content_risk_that_is_clear_and_alarming_at_once_is_refused(tmp_path: Path) -> None:
    assert "R_HIGH=0.6 must be above R_LOW=0.6" in refusal(tmp_path, R_LOW="0.6", R_HIGH="0.6")


def test_merges_that_alone_would_make_somebody_trusted_are_refused_naming_both(tmp_path: Path) -> None:
    told = refusal(tmp_path, TRUST_MERGE_WEIGHT="0.05", TRUST_MERGE_CAP="0.1")
    assert "TRUST_MERGE_CAP=0.1 must be below TRUST_TRANSFER=0.1" in told
    assert read(tmp_path, TRUST_MERGE_WEIGHT="0.05")["TRUST_MERGE_WEIGHT"] == 0.05
    assert read(tmp_path, TRUST_MERGE_CAP="1")["TRUST_MERGE_CAP"] == 1, "merges are no vouches"


def test_a_fast_lane_that_no_seeds_vouch_could_open_is_refused(tmp_path: Path) -> None:
    assert "TRUST_FAST_LANE=0.95 is above 0." in refusal(tmp_path, TRUST_FAST_LANE="0.95")
    assert read(tmp_path, TRUST_FAST_LANE="0.8")["TRUST_FAST_LANE"] == 0.8


@pytest.mark.parametrize("names", [PATHS, ("T_HIGH",), ("TRUSTED_PROXY",)])
def test_an_empty_setting_is_its_default(tmp_path: Path, names: tuple[str, ...]) -> None:
    empty, ground = read(tmp_path, **dict.fromkeys(names, "")), read(tmp_path)
    keys = {
        "SECRET_KEY",
        "AUDIT_KEY",
        "WEBHOOK_KEY",
        "PUSH_KEY",
        "OAUTH_KEY",
        "TOMBSTONE_KEY",
    }  # made anew where the drive has none
    assert {name: str(empty[name]) for name in empty.keys() - keys} == {
        name: str(ground[name]) for name in ground.keys() - keys
    }


def test_at_most_20_peers_are_read_by_their_dids(tmp_path: Path) -> None:
    dids = [f"did:web:n{number}.example.org" for number in range(20)]
    assert read(tmp_path, PEERS=",".join(dids))["PEERS"] == dids


def test_streams_on_this_machine_and_elsewhere_are_taken_in_turn(tmp_path: Path) -> None:
    urls = ["ws://127.0.0.1:6008/subscribe", "ws://[::1]:6008/subscribe", "wss://stream.example.test/subscribe"]
    assert read(tmp_path, JETSTREAM_URLS=",".join(urls))["JETSTREAM_URLS"] == urls


def test_a_site_names_who_runs_it_and_a_demo_or_replay_says_that_it_is_one(tmp_path: Path) -> None:
    for contact in ("mailto:ana@site.example", "https://site.example/contact?to=ana"):
        told = read(tmp_path, OPERATOR_NAME="Ana & Ben", OPERATOR_CONTACT=contact)
        assert (told["OPERATOR_NAME"], told["OPERATOR_CONTACT"], told["STAGED"]) == ("Ana & Ben", contact, "")
    whole = patch.dict(os.environ, {"DATA_ROOT": str(tmp_path)}, clear=True)
    with whole, patch("sys.argv", ["manage.py", "demo"]):
        staged = runpy.run_path(str(PROJECT / "trustsite" / "settings.py"))["STAGED"]
    assert staged == "a demo with made-up people on this machine"


def test_a_webhook_is_for_the_drives_own_store_and_a_refusal_keeps_its_address_secret(tmp_path: Path) -> None:
    address = "https://hooks.example.test:8443/services/T0/SECRET?wait=true"
    assert read(tmp_path, WEBHOOK_URL=address)["WEBHOOK_URL"] == address
    assert "SECRET" not in refusal(tmp_path, WEBHOOK_URL="http://hooks.example.test/SECRET")
    whole = patch.dict(os.environ, {"DATA_ROOT": str(tmp_path), "WEBHOOK_URL": address}, clear=True)
    with whole, patch("sys.argv", ["manage.py", "demo"]):
        assert runpy.run_path(str(PROJECT / "trustsite" / "settings.py"))["WEBHOOK_URL"] == ""


def test_a_public_origin_is_the_address_of_a_host_that_is_allowed(tmp_path: Path) -> None:
    origin = "https://triage.sunstead.org"
    assert "ALLOWED_HOSTS does not allow" in refusal(tmp_path, PUBLIC_ORIGIN=origin)
    for hosts in ("127.0.0.1,triage.sunstead.org", ".sunstead.org"):
        assert read(tmp_path, PUBLIC_ORIGIN=origin, ALLOWED_HOSTS=hosts)["PUBLIC_ORIGIN"] == origin
        with_origin = read(tmp_path, PUBLIC_ORIGIN=origin, ALLOWED_HOSTS=hosts)
        assert with_origin["SESSION_COOKIE_SECURE"] is with_origin["CSRF_COOKIE_SECURE"] is True
    assert read(tmp_path)["SECURE_COOKIES"] is False
