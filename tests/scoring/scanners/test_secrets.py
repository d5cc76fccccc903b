"""Secrets: every kind in every carrier, nothing in honest changes, no secret in what is said about it."""

import random
from base64 import b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.change import Change, Mail
from scoring.diff.parser import read_change
from scoring.scanners.secrets import scan
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.conftest import Count
from tests.growth import WHOLE_LINE, in_linear_time
from tests.scoring.scanners.secret_kinds import CARRIERS, HEX, KINDS, adding, leak, patch, private_key, text, with_crc

DRAW = random.Random(5)
TOKEN = with_crc("ghp_", DRAW)


def found(path: str, *lines: str) -> list[Finding]:
    return list(scan(adding(path, list(lines))))


def test_of_at_least_forty_kinds_in_six_carriers_at_least_95_of_100_are_found(count: Count) -> None:
    draw, missed, played = random.Random(1), [], 0
    for _ in range(count(2, 40)):
        for kind in KINDS:
            for carrier in CARRIERS:
                played += 1
                submission, _ = leak(kind, carrier, draw)
                if not any(finding.line == 3 for finding in scan(submission)):
                    missed.append((kind, carrier))
    assert len(KINDS) >= 40
    assert len(missed) <= 0.05 * played, missed


@pytest.mark.parametrize("kind", KINDS)
def test_no_quote_and_no_explanation_shows_a_secret(kind: str) -> None:
    for carrier in CARRIERS:
        submission, secret = leak(kind, carrier, random.Random(2))
        for finding in scan(submission):
            assert secret not in finding.quote + finding.explanation
            assert len(finding.quote) <= 200


HALF = len(TOKEN) // 2
DISGUISES = {
    "in pieces": [f'token = "{TOKEN[:HALF]}" + "{TOKEN[HALF:]}"'],
    "in three pieces": [f"token = '{TOKEN[:9]}' . '{TOKEN[9:HALF]}' . '{TOKEN[HALF:]}'"],
    "in pieces over lines": ["token = (", f'    "{TOKEN[:HALF]}"', f'    f"{TOKEN[HALF:]}"', ")"],
    "behind an operator": [f'token = "{TOKEN[:HALF]}" +', f'    "{TOKEN[HALF:]}"'],
    "before an operator": [f'token = "{TOKEN[:HALF]}"', f'    + "{TOKEN[HALF:]}"'],
    "over a continued line": [f'token = "{TOKEN[:HALF]}\\', f'{TOKEN[HALF:]}"'],
    "with a space without width": [f'token = "{TOKEN[:HALF]}\u200b{TOKEN[HALF:]}"'],
    "in escapes": ['token = "' + "".join(f"\\x{ord(letter):02x}" for letter in TOKEN) + '"'],
    "in percent signs": ["token=" + "".join(f"%{ord(letter):02x}" for letter in TOKEN)],
    "in base 64": [f"  token: {b64encode(TOKEN.encode()).decode()}"],
    "in hexadecimal digits": [f'token = "{TOKEN.encode().hex()}"'],
}


@pytest.mark.parametrize("lines", DISGUISES.values(), ids=DISGUISES)
def test_a_token_that_is_spelled_otherwise_is_found_and_masked(lines: list[str]) -> None:
    findings = found("deploy.py", *lines)
    assert {(finding.rule, finding.severity) for finding in findings} == {("github-token", Severity.HIGH)}
    for finding in findings:
        assert TOKEN[: HALF - 1] not in finding.quote


def test_a_private_key_in_base_64_is_found() -> None:
    key = b64encode(private_key("RSA PRIVATE KEY")(random.Random(3)).replace("\\n", "\n").encode()).decode()
    assert [finding.rule for finding in found("secret.yml", f"  tls.key: {key}")] == ["private-key"]


@pytest.mark.parametrize(
    "lines",
    [
        ['names = ["ghp_", "other"]', 'x = "a" + "b"'],
        ["aGVsbG8gd29ybGQsIHRoaXMgaXMgbm90aGluZyBhdCBhbGw="],
        ['prefix = "ghp_" + name', 'sha = "' + "ab12" * 16 + '"'],
        [f'x = "{"a" * 40}" + "{"b" * 40}"', 'url = "https://" + host + "/x"'],
    ],
)
def test_honest_pieces_and_encodings_are_no_finding(lines: list[str]) -> None:
    assert found("deploy.py", *lines) == []


def test_two_secrets_of_one_line_are_both_masked_in_both_quotes() -> None:
    other = with_crc("npm_", DRAW)
    findings = found("deploy.sh", f"login {TOKEN} {other}")
    assert [finding.rule for finding in findings] == ["github-token", "npm-token"]
    for finding in findings:
        assert TOKEN not in finding.quote
        assert other not in finding.quote


def test_a_secret_in_a_removed_line_is_no_finding() -> None:
    change = read_change(patch("deploy.sh", added=["login"], removed=[f"login {TOKEN}"]))
    assert list(scan(Submission(change))) == []


def test_a_secret_that_only_moves_weighs_little_and_is_said_to_be_public() -> None:
    change = read_change(patch("deploy.sh", added=["", f"  login {TOKEN}"], removed=[f"login {TOKEN}"]))
    [finding] = scan(Submission(change))
    assert finding.severity is Severity.LOW
    assert "public already" in finding.explanation


def test_a_token_with_a_wrong_checksum_weighs_little() -> None:
    wrong = TOKEN[:-1] + ("0" if TOKEN[-1] != "0" else "1")
    assert [finding.severity for finding in found("deploy.sh", f"login {wrong}")] == [Severity.LOW]


def test_a_token_with_a_right_checksum_is_real_in_a_test_and_in_a_manual_too() -> None:
    for path in ("tests/test_login.py", "docs/login.md"):
        assert [finding.severity for finding in found(path, f"token = '{TOKEN}'")] == [Severity.HIGH]


def test_what_has_no_checksum_weighs_one_step_less_in_a_test() -> None:
    line = f"key = 'dop_v1_{text(random.Random(3), 64, HEX)}'"
    assert [finding.severity for finding in found("app/cloud.py", line)] == [Severity.HIGH]
    assert [finding.severity for finding in found("tests/test_cloud.py", line)] == [Severity.MED]


def test_a_private_key_over_many_lines_is_one_finding_at_its_first_line() -> None:
    lines = private_key("RSA PRIVATE KEY")(random.Random(4)).split("\\n")
    [finding] = found("deploy/key.pem", *lines)
    assert (finding.rule, finding.line, finding.severity) == ("private-key", 1, Severity.HIGH)


def test_a_secret_in_a_commit_message_is_found_without_a_line() -> None:
    mail = Mail("Mara", "mara@example.test", "", "Log in", f"with {TOKEN}")
    [finding] = scan(Submission(Change((), (mail,), (), 1.0)))
    assert (finding.file, finding.line, finding.severity) == (None, None, Severity.HIGH)
    assert TOKEN not in finding.quote


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("app/settings.py", 'AWS_ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"'),
        ("app/settings.py", 'PASSWORD = "xxxxxxxxxxxxxxxx"'),
        ("deploy.sh", "export GITHUB_TOKEN=ghp_1234567890abcdefghijklmnopqrstuvwxyz"),
        ("app/settings.py", 'PASSWORD = "<your-password-here>"'),
        ("app/settings.py", 'password = os.environ["DATABASE_PASSWORD"]'),
        ("app/settings.py", 'token = get_token("session_refresh_token")'),
        ("app/settings.py", 'API_KEY = "change-me-in-production-1"'),
        ("app/settings.py", 'TOKEN_URL = "https://login.tidewater.io/oauth2/token"'),
        ("deploy/values.yaml", "password: ${DATABASE_PASSWORD}"),
        ("deploy/values.yaml", 'password: "{{ vault_database_password }}"'),
        ("compose.yml", "DATABASE_URL: postgres://postgres:postgres@db:5432/app"),
        ("README.md", "postgresql://user:Kq83hGmz01pX@db.tidewater.io/app"),
        ("app/db.py", 'URL = "postgresql://plots:Kq83hGmz01pX@localhost/app"'),
        ("app/db.py", 'URL = f"postgresql://{user}:{password}@{host}/app"'),
        ("tests/test_login.py", 'password = "Kq83hGmz01pXzz81"'),
        ("package-lock.json", '"integrity": "sha512-Kq83hGmz01pXzz81Kq83hGmz01pXzz81Kq83hGmz01pXzz81=="'),
        ("poetry.lock", 'token = "9f2c4ab87d3e61509f2c4ab87d3e6150"'),
        ("go.sum", "h1:Kq83hGmz01pXzz81Kq83hGmz01pXzz81Kq83hGmz01="),
        ("app/keys.py", 'HEADER = "-----BEGIN RSA PRIVATE KEY-----"'),
        ("app/keys.py", "-----BEGIN PUBLIC KEY-----"),
        ("app/migrations/0053_tokens.py", '("authtoken", "0004_alter_authtoken_options"),'),
        ("static/app.min.js", "a=" + "b(c);" * 300 + 'password="Kq83hGmz01pXzz81"'),
        ("app/colours.py", 'key = "#a1b2c3d4e5f6"'),
    ],
)
def test_a_placeholder_a_reference_a_hash_and_a_fixture_are_no_findings(path: str, line: str) -> None:
    assert found(path, line) == []


def test_a_password_in_an_address_is_found_where_others_can_reach_the_host() -> None:
    [finding] = found("app/db.py", 'URL = "postgresql://plots:Kq83hGmz01pX@db.tidewater.io/app"')
    assert (finding.rule, finding.severity) == ("connection-string", Severity.HIGH)
    assert "Kq83hGmz01pX" not in finding.quote


def test_a_kind_that_only_detect_secrets_knows_is_found() -> None:
    line = f"cloudant_password = '{text(random.Random(6), 64, HEX)}'"
    assert "detect-secrets" in [finding.rule for finding in found("app/store.py", line)]


@given(st.lists(st.text(max_size=80), max_size=8))
def test_no_text_breaks_the_scan(lines: list[str]) -> None:
    for finding in scan(adding("app/text.py", lines)):
        assert finding.line is None or 1 <= finding.line <= len(lines) + 40


@pytest.mark.parametrize(
    "part", ["aws", "eyJ", "sk-", 'password="', "http://a:", "server=x;", "-----BEGIN PRIVATE KEY-----"]
)
def test_text_made_to_stall_a_pattern_is_read_in_linear_time(part: str) -> None:
    def five_lines(size: int) -> Submission:
        return adding("app/long.py", [part * (size // len(part))] * 5)

    for size in (WHOLE_LINE, 40_000):
        in_linear_time(lambda submission: list(scan(submission)), five_lines, size)


def test_title_and_description_are_read_as_well() -> None:
    empty = Submission(Change((), (), (), 1.0))
    for submission in (replace(empty, title=f"Use {TOKEN}"), replace(empty, discussion=(("author", TOKEN),))):
        assert [finding.rule for finding in scan(submission)] == ["github-token"]
