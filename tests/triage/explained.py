"""Finds figures of a page without words beside them that say what they mean, by walking the HTML as sent."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = frozenset({"br", "hr", "img", "input", "link", "meta", "use", "wbr"})


@dataclass
class _Node:
    tag: str
    attributes: dict[str, str | None]
    parent: "_Node | None" = None
    children: list["_Node"] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return str(self.attributes.get("class") or "").split()

    def is_help(self) -> bool:
        return self.tag in ("details", "ul") and "help" in self.classes

    def every(self) -> list["_Node"]:
        return [self, *(one for child in self.children for one in child.every())]

    def above(self) -> list["_Node"]:
        return [self.parent, *self.parent.above()] if self.parent else []


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.here = _Node("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = _Node(tag, dict(attrs), self.here)
        self.here.children.append(made)
        if tag not in EMPTY:
            self.here = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.here.children.append(_Node(tag, dict(attrs), self.here))

    def handle_endtag(self, tag: str) -> None:
        for one in [self.here, *self.here.above()]:
            if one.tag == tag and one.parent:
                self.here = one.parent
                return


def unexplained(page: str) -> tuple[int, list[str]]:
    """How many figures a page has (tiles, charts, tables of numbers), and those without help, each by what it is.

    Help stands in the figure or card around a chart, and for tiles and tables there or right beside it.
    """
    tree = _Tree()
    tree.feed(page)
    shown = [one for one in tree.root.every() if _is_figure(one)]
    return len(shown), [_name(one) for one in shown if not _is_explained(one)]


def _is_figure(one: _Node) -> bool:
    if one.tag == "svg":
        return one.attributes.get("role") == "img"
    if one.tag == "dl":
        return "tiles" in one.classes
    return one.tag == "table" and any("number" in cell.classes for cell in one.every() if cell.tag == "td")


def _is_explained(one: _Node) -> bool:
    around = next((node for node in one.above() if node.tag == "figure" or "card" in node.classes), None)
    place = around or one.parent
    beside = place.parent.children if place and place.parent and one.tag != "svg" else []
    own = place.every() if place else []
    return any(node.is_help() for node in own) or any(node.is_help() for near in beside for node in _shallow(near))


def _shallow(one: _Node) -> list[_Node]:
    """What stands beside a card, not within another one."""
    return [one, *one.children] if one.tag in ("details", "div") else []


def _name(one: _Node) -> str:
    return f"{one.tag}.{'.'.join(one.classes)} {one.attributes}"
