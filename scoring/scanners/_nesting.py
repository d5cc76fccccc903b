"""Measures how deep a tree of Python nests: checks that climb from each text to its statement take the square of it."""

import ast

DEEP = 200


def nests_deeply(tree: ast.AST, levels: int = DEEP) -> bool:
    """Return whether a path from the root of a tree has more nodes than this; without recursion."""
    row: list[ast.AST] = [tree]
    for _ in range(levels):
        row = [child for node in row for child in ast.iter_child_nodes(node)]
        if not row:
            return False
    return True
