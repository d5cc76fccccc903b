"""The depth of a tree is told exactly, and of one that is too deep for recursion too."""

import ast

import pytest

from scoring.scanners.bandit_checks import DEEP, nests_deeply


@pytest.mark.parametrize(("code", "depth"), [("a", 3), ("a + b", 4), ("f(a)", 4), ("f([a, (b, [c])])", 7)])
def test_the_depth_of_a_tree_counts_its_nodes_from_the_root(code: str, depth: int) -> None:
    tree = ast.parse(code, mode="eval")
    assert nests_deeply(tree, depth - 1)
    assert not nests_deeply(tree, depth)


def test_a_long_concatenation_nests_deeply_and_a_long_list_does_not() -> None:
    assert nests_deeply(ast.parse("f('select ' + " + "'a' + " * (DEEP * 3) + "b)"))
    assert not nests_deeply(ast.parse("f([" + "'a', " * (DEEP * 3) + "b])"))
