"""The values that a statement puts into its texts are found one by one, and a rule spares those that are safe."""

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.scanners import dangerous
from scoring.scanners._holes import has_unsafe, holes
from tests.conftest import count
from tests.growth import in_linear_time
from tests.scoring.scanners.written import added_lines, rules_found

QUOTED = re2.compile("quote")


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ('run("tar " + name + " " + quote(other))', ["name", "quote(other)"]),
        ('run("tar " + (name or "x"))', ['(name or "x")']),
        ("run(f\"tar {name!r} {quote('a')} {size:>3}\")", ["name", "quote('a')", "size"]),
        ('run("tar %s %d" % (name, size))', ["name", "0"]),
        ('run("tar {} {}".format(name, size=width))', ["name", "width"]),
        ('exec.Command("sh", "-c", fmt.Sprintf("tar %d %s", size, name))', ["0", "name"]),
        ("exec(sprintf('tar %s > %s', $name, escapeshellarg($to)))", ["$name", "escapeshellarg($to)"]),
        ('exec("tar $name {$this->to}");', ["$this->to", "name"]),
        ("run(`tar ${name}`)", ["name"]),
        ('system("tar #{name}")', ["name"]),
        ('os.execute("tar " .. name)', ["name"]),
        ('format!("tar {name} {}", other)', ["name", "other"]),
        ('$db->query("select * from t where id in (" . implode(",", $ids) . ")")', ['implode(",", $ids)']),
        ('run("tar", name, like="%" + word + "%")', []),
    ],
)
def test_each_value_that_becomes_a_part_of_a_text_is_found(statement: str, found: list[str]) -> None:
    assert sorted({one.strip() for one in holes(statement)}) == sorted(found)


@pytest.mark.parametrize(
    ("statement", "near", "is_unsafe"),
    [
        ('run("tar " + quote(name))', "", False),
        ('run("tar " + quote(name) + other)', "", True),
        ('run("tar " + FOLDER + Config.NAME + "x")', "", False),
        ('run("order by " + column)', "if column not in COLUMNS:\n    raise Wrong", False),
        ('run("order by " + column)', "if (!allowed.includes(column)) throw new Error();", False),
        ('run("order by " + column)', "for column in columns:", True),
        ("run(line)", "", True),
    ],
)
def test_a_value_is_safe_where_it_is_cleaned_fixed_or_looked_up_in_a_list(
    statement: str, near: str, is_unsafe: bool
) -> None:
    assert has_unsafe(statement, QUOTED, near) is is_unsafe


@pytest.mark.parametrize(
    "text", ['f"a = {a} and b = {quote(b)}"', 'f"set a = {a}, b = {quote(b)}"', 'f"{a} {quote(b)}"']
)
def test_a_value_is_not_safe_because_another_one_in_its_text_is(text: str) -> None:
    assert has_unsafe(f"run({text})", QUOTED, f"run({text})")
    assert has_unsafe('run(f"where {chosen}")', QUOTED, f"chosen = {text}")
    safe = text.replace("{a}", "{quote(a)}")
    assert not has_unsafe('run(f"where {chosen}")', QUOTED, f"chosen = {safe}")


def test_a_sum_in_a_text_of_python_is_a_number() -> None:
    assert not has_unsafe('run(f"limit {self.most + 1}")', QUOTED, "")
    assert has_unsafe("run(`limit ${self.most + 1}`)", QUOTED, "")
    assert has_unsafe('run(f"limit {self.most}")', QUOTED, "")


def test_a_command_of_which_one_part_is_quoted_and_another_is_not_is_found() -> None:
    half, whole = "sprintf('a %s %s', $x, escapeshellarg($y))", "sprintf('a %s', escapeshellarg($y))"
    assert "php-shell-built-text" in rules_found(dangerous.scan, added_lines(f"exec({half});", "src/a.php"))
    assert "php-shell-built-text" not in rules_found(dangerous.scan, added_lines(f"exec({whole});", "src/a.php"))


@pytest.mark.parametrize("piece", ['"a" + ', "(", '("a" + ', "a.a", '"%s" % (', "A", "{", "`${", "sprintf("])
def test_a_statement_is_taken_apart_in_linear_time(piece: str) -> None:
    in_linear_time(lambda text: has_unsafe(text, QUOTED, ""), lambda size: piece * size, 200)


@settings(max_examples=count(50, 2_000), deadline=None)
@given(st.lists(st.sampled_from([*"ab$%+.,(){}[]\"'`#\0 ", "f'", "sprintf(", ".format(", "A_B", "€"])))
def test_any_text_can_be_taken_apart(pieces: list[str]) -> None:
    assert all(isinstance(one, str) for one in holes("".join(pieces)))
