"""Titles that claim too little, code without tests, unfinished code, conditions turned round, checks that go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.change import FileChange, Hunk, Line
from scoring.scanners import Scan, dangerous, flipped, misleading_title, slop, untested, weakened
from tests.conftest import count
from tests.growth import WHOLE_LINE, in_linear_time
from tests.scoring.scanners.written import added_lines, found, marked_lines, rules_found

CODE = "import socket\ndef send(value):\n    link = socket.socket()\n    link.send(value)\n    return value"


@pytest.mark.parametrize(
    "title",
    [
        "Fix typo",
        "docs: describe the cache",
        "Fix typos in docstrings",
        "Add docstrings to IP validation helper functions",
        "style: sort imports",
        "Apply black.",
        "Add missing tests",
        "Bump mypy from 0.910 to 0.961",
        "refactor: rename, no functional change",
    ],
)
def test_a_title_that_claims_less_than_the_code_does_is_a_finding(title: str) -> None:
    (finding,) = found(misleading_title.scan, added_lines(CODE), title=title)
    assert (finding.type, finding.severity, finding.quote) == ("intent_mismatch", "med", title)


@pytest.mark.parametrize(
    "title",
    [
        "Add a socket",
        "",
        "Fix docs build",
        "Fix typo and refactor",
        "Add docstrings and a parser",
        "docstring parser",
        "test",
    ],
)
def test_a_title_that_claims_nothing_clear_is_none(title: str) -> None:
    assert found(misleading_title.scan, added_lines(CODE), title=title) == []


def test_a_title_that_is_true_is_no_finding() -> None:
    assert (
        found(
            misleading_title.scan,
            added_lines(CODE, "docs/conf.py"),
            added_lines("text", "README.md"),
            title="docs: more",
        )
        == []
    )
    assert found(misleading_title.scan, added_lines(CODE, "tests/test_a.py"), title="Add tests") == []
    journey = added_lines(CODE, "shop/tests_e2e/e2e_test_basket.py")
    assert found(misleading_title.scan, journey, title="test(e2e): add functional coverage for the basket flows") == []
    silenced = "".join(f"-x = call({number})  # type: ignore\n+x = call({number})\n" for number in range(4))
    assert found(misleading_title.scan, marked_lines(silenced), title="Bump mypy from 0.982 to 1.0.1") == []
    prose = marked_lines(" def f():\n     '''\n-    Retuns a thing, which see.\n+    Returns a thing, which see.\n")
    assert found(misleading_title.scan, prose, title="Fix typo") == []
    wrapped = marked_lines("-call(first, 'second', third)\n+call(\n+    first,\n+    \"second\",\n+    third,\n+)\n")
    assert found(misleading_title.scan, wrapped, title="style: black") == []


def test_a_statement_that_moves_or_changes_beside_its_remark_is_one() -> None:
    moved = "-x = check(user)  # first\n save(page)\n+x = check(user)  # first\n" * 2
    assert found(misleading_title.scan, marked_lines(moved), title="docs: remarks") != []
    changed = "".join(f"-x = call({number})  # old\n+x = call(-{number})  # new\n" for number in range(4))
    assert found(misleading_title.scan, marked_lines(changed), title="docs: remarks") != []


def test_code_without_a_test_is_a_low_finding() -> None:
    code = added_lines("\n".join(f"x{number} = {number}" for number in range(untested.LINES)))
    assert [(finding.type, finding.severity) for finding in found(untested.scan, code)] == [("untested", "low")]
    assert found(untested.scan, code, added_lines("assert x1", "tests/test_a.py")) == []
    assert found(untested.scan, added_lines("x = 1")) == []
    assert found(untested.scan, added_lines("text\n" * 40, "README.md"), added_lines("# note\n" * 40)) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("# As an AI language model I cannot run this", "chat-leftover"),
        ("Certainly! Here is the updated code:", "chat-leftover"),
        ("    # ... existing code ...", "placeholder"),
        ("    // your logic here", "placeholder"),
        ("    # in a real application, check the password", "placeholder"),
        ("def a():\n    pass  # TODO\ndef b():\n    pass  # TODO\ndef c():\n    pass  # TODO", "stubs"),
        (
            "\n".join(f"# set the {word} value\nset_value({word})" for word in ("count", "total", "index", "limit")),
            "echoing-comments",
        ),
    ],
)
def test_a_sign_of_slop_is_found(text: str, rule: str) -> None:
    assert rules_found(slop.scan, added_lines(text)) == {rule}


@pytest.mark.parametrize(
    "text",
    [
        "raise NotImplementedError",
        "# The limit of the server is 4,000, so ask twice.\nlimit = 4_000",
        "# TODO: measure this on Windows",
        "existing = load_existing(code)",
    ],
)
def test_code_that_somebody_thought_through_is_none(text: str) -> None:
    assert found(slop.scan, added_lines(text)) == []


def test_a_block_that_is_added_twice_is_found_once() -> None:
    block = "\n".join(f"step_{number} = make(step={number})" for number in range(slop.BLOCK))
    assert [finding.rule for finding in found(slop.scan, added_lines(block), added_lines(block, "src/b.py"))] == [
        "copied-block"
    ]
    assert found(slop.scan, added_lines(block), added_lines(block, "tests/test_b.py")) == []


@pytest.mark.parametrize(
    ("old", "new", "how", "severity"),
    [
        ("if user.is_admin:", "if not user.is_admin:", "opposite", "med"),
        ("if token == expected:", "if token != expected:", "opposite", "med"),
        ("if (isValid && isOwner) {", "if (isValid || isOwner) {", "opposite", "med"),
        ("verify = True", "verify = False", "opposite", "med"),
        ("while index < len(items):", "while index <= len(items):", "shifted", "low"),
        ("if size > limit:", "if size < limit:", "turned", "low"),
        ("if ready:", "if not ready:", "opposite", "low"),
    ],
)
def test_a_condition_that_is_turned_round_is_found(old: str, new: str, how: str, severity: str) -> None:
    (finding,) = found(flipped.scan, marked_lines(f"-{old}\n+{new}\n"))
    assert (finding.rule, finding.severity, finding.line, finding.quote) == (how, severity, 1, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if a == b:", "if a == c:"),
        ("if a < b:", "if a <= b and c:"),
        ("x = 1", "x = 2"),
        ("a = b", "a == b"),
        ("note", "not note"),
    ],
)
def test_another_change_of_a_line_is_none(old: str, new: str) -> None:
    assert found(flipped.scan, marked_lines(f"-{old}\n+{new}\n")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("async def __call__(self, scope, receive, send):", "async def __call__(self, connection):"),
        ("return await self.app(scope, receive, send)", "return await self.app(receive, send)"),
        ("return self.app(scope)", "return self.app(receive)"),
        ("return Request(scope)", "return Request(environ)"),
        ('if scope["type"] == "http" and scope["path"] != "/":', 'if scope["type"] == "http" and path != "/":'),
        ('if scope.get("root_path") and is_ready:', "if is_ready:"),
        ('assert "app" in self.scope and is_ready', "assert is_ready"),
        ('assert not url, \'Set "scope" or "parts".\'', 'assert not url, \'Set "url" or "parts".\''),
        ("if ($scope.ready && $scope.shown) {", "if (ready && shown) {"),
        ("return super(UserAdmin, self).inlines(request)", "return super().inlines(request)"),
        ("raise ValidationError('%d is no input' % piece)", "raise ValueError('%d is no input' % piece)"),
        ("if token != None and kind in ('form', ''):", "if token is not None and kind in ('form', ''):"),
    ],
)
def test_what_only_reads_like_a_right_may_go(old: str, new: str) -> None:
    assert found(flipped.scan, marked_lines(f"-{old}\n+{new}\n")) == []


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        ('if "admin" in token.scope and is_ready:', "if is_ready:", "weaker"),
        ('if "admin" in scope and is_ready:', "if is_ready:", "weaker"),
        ('if has_scope(token, "write") and is_ready:', "if is_ready:", "weaker"),
        ("if required_scopes <= token.scopes and is_ready:", "if is_ready:", "weaker"),
        ('if claims["scope"] == "write" and is_ready:', "if is_ready:", "weaker"),
        ('if scope == "admin" and is_ready:', "if is_ready:", "weaker"),
        ('if scope["user"] == page.author and is_ready:', "if is_ready:", "weaker"),
        ("if token.covers(scope) and is_ready:", "if is_ready:", "weaker"),
        ("return has_access(token, scope)", "return has_access(token)", "weaker"),
        ('if (in_array("admin", $scope) && $ready) {', "if ($ready) {", "weaker"),
        ("if scope in token.scopes:", "if scope not in token.scopes:", "opposite"),
        ("return super(Page, self).may(user) and user.is_admin", "return super().may(user)", "weaker"),
        ('raise Refused("no") unless user.admin? && ready', 'raise Refused("no") unless ready', "weaker"),
        ('assert user.is_admin, "a right is missing"', 'assert user, "a right is missing"', "weaker"),
        ("if token is None:", "if token is not None:", "opposite"),
    ],
)
def test_a_right_beside_what_reads_like_one_may_not_go(old: str, new: str, how: str) -> None:
    (finding,) = found(flipped.scan, marked_lines(f"-{old}\n+{new}\n"))
    assert (finding.rule, finding.severity) == (how, "med")


def test_of_runs_of_different_lengths_only_lines_that_are_alike_are_compared() -> None:
    alike = marked_lines("-if user.is_admin:\n+if not user.is_admin:\n+    log()\n")
    assert [finding.rule for finding in found(flipped.scan, alike)] == ["opposite"]
    assert found(flipped.scan, marked_lines("-if user.is_admin:\n+if not page.is_open:\n+    log()\n")) == []


GUARD = "-    if amount < 0:\n-        raise ValueError(amount)\n"


def test_a_check_that_goes_while_its_code_stays_is_found() -> None:
    (finding,) = found(weakened.scan, marked_lines(f" def pay(amount):\n{GUARD}     send(amount)\n"))
    assert (finding.rule, finding.severity, finding.line, finding.removed) == ("fewer-checks", "low", 2, True)


def test_a_check_that_is_replaced_or_goes_with_its_code_is_none() -> None:
    assert found(weakened.scan, marked_lines(f"{GUARD}+    if amount <= 0:\n+        raise Refused(amount)\n")) == []
    assert found(weakened.scan, marked_lines(f"{GUARD}-    send(amount)\n" * 5)) == []
    assert found(weakened.scan, marked_lines(GUARD), added_lines("check_amount(x)\nassert x > 0", "src/b.py")) == []


ROWS = st.lists(st.tuples(st.sampled_from("+- "), st.text(max_size=40)), min_size=1, max_size=10)


@settings(max_examples=count(20, 1000))
@given(ROWS, st.text(max_size=60))
def test_no_text_makes_these_scanners_fail(rows: list[tuple[str, str]], title: str) -> None:
    lines = tuple(
        Line("+" if mark == "+" else "-" if mark == "-" else " ", n, n, text) for n, (mark, text) in enumerate(rows)
    )
    file = FileChange("a.py", "a.py", "modified", (Hunk(1, 1, "", lines),))
    for scan in (flipped.scan, misleading_title.scan, slop.scan, untested.scan, weakened.scan):
        assert all(finding.explanation for finding in found(scan, file, title=f"docs: {title}\ud800"))


@pytest.mark.parametrize("scan", [flipped.scan, misleading_title.scan, slop.scan, untested.scan, weakened.scan])
@pytest.mark.parametrize("unit", ["a ", "# ", "if not ", "="])
def test_hostile_lines_end_in_linear_time(scan: Scan, unit: str) -> None:
    def lines(size: int) -> FileChange:
        return added_lines("\n".join(["x = " + (unit * size)[:size]] * 5))

    for size in (WHOLE_LINE, 1_000_000):
        in_linear_time(lambda file: found(scan, file, title="docs: x"), lines, size)


@pytest.mark.parametrize("scan", [flipped.scan, dangerous.scan])
@pytest.mark.parametrize("order", ["in turn", "apart"])
def test_many_lines_that_call_a_right_otherwise_end_in_linear_time(scan: Scan, order: str) -> None:
    def lines(size: int) -> FileChange:
        old, new = (
            [f"{mark}    if not {name}{row}:\n" for row in range(size)]
            for mark, name in (("-", "allowed"), ("+", "known"))
        )
        both = zip(old, new, strict=True) if order == "in turn" else (old, new)
        return marked_lines("".join(line for rows in both for line in rows))

    in_linear_time(lambda file: found(scan, file), lines, 6_000)


def test_a_name_that_changes_where_it_gets_its_value_drops_no_check() -> None:
    renamed = "-allowed = asked(user)\n-if not allowed:\n+known = asked(user)\n+if not known:\n     raise Forbidden\n"
    for scan in (flipped.scan, dangerous.scan):
        assert rules_found(scan, marked_lines(renamed)) == set()
    for other in (renamed.replace("+known = asked", "+known = greeted"), f"{renamed}+known = True\n"):
        assert "weaker" in rules_found(flipped.scan, marked_lines(other))
