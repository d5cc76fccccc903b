"""Values grouped by the table or object that they stand in: the entries of lock files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scoring.content.change import Line
from scoring.packages.entry import any_touched
from scoring.packages.fragments import Keys, Leaf


@dataclass(slots=True)
class Block:
    """The values of one entry by their last key, and by their last two with a dot; of each the first.

    `path` are the keys above its first value.
    """

    path: Keys
    values: dict[str, Leaf] = field(default_factory=dict)
    lists: dict[str, list[Leaf]] = field(default_factory=dict)  # every value of a key, in order
    lines: list[Line] = field(default_factory=list)

    def text(self, *names: str) -> str | None:
        """The value of the first of these keys that there is."""
        return next((self.values[name].value for name in names if name in self.values), None)

    def all(self, name: str) -> list[Leaf]:
        """Every value of a key."""
        return self.lists.get(name, [])

    def line(self, *names: str) -> Line:
        """The line of the first of these keys that there is, else the first line."""
        return next((self.values[name].line for name in names if name in self.values), self.lines[0])

    @property
    def touched(self) -> bool:
        """Whether a line of it is added or removed."""
        return any_touched(self.lines)


def grouped(leaves: Iterable[Leaf]) -> Mapping[int, Block]:
    """The blocks by number, in order."""
    blocks: dict[int, Block] = {}
    for leaf in leaves:
        block = blocks.setdefault(leaf.block, Block(leaf.path[:-1]))
        for name in {".".join(leaf.path[-1:]), ".".join(leaf.path[-2:])}:
            block.values.setdefault(name, leaf)
            block.lists.setdefault(name, []).append(leaf)
        block.lines.append(leaf.line)
    return blocks
