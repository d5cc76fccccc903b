"""The vouch graph around a contributor as a plot: the seeds on top, the person below them, vouches downwards. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scoring.read import Neighbour, VouchGraph
from triage.plots import NARROW, Dot, Label, Plot, Stroke, Table, line
from triage.words import visible

ACROSS = 3  # people beside each other
APART = 10  # units between two names
HEAD, ROW = 26, 44  # units of a layer's heading, and of a row of people
# Units that a letter of 13 takes at most, in any font of the style sheet; every other one takes USUAL.
WIDTHS = {**dict.fromkeys("ijl.,:;'|!", 5.0), **dict.fromkeys("frt()[]-", 6.0), **dict.fromkeys("mwMW@%", 13.0)}
USUAL, CAPITAL, BEYOND = 8.0, 10.5, 13.0  # BEYOND: of every letter that is not ASCII


@dataclass(frozen=True, slots=True)
class Spot:
    """Where somebody stands, and how many units their name may take."""

    x: float
    y: float
    room: float


def vouch_plot(graph: VouchGraph) -> Plot:
    """The graph drawn: one layer for each distance from the seeds, then the person, then whom they vouch for."""
    headings, spots, height = _placed(_layers(graph.people))
    names = [visible(one.person.name) for one in graph.people]
    return Plot(
        key="vouch-graph",
        title="Vouches around this contributor",
        summary=_summary(graph),
        height=height,
        table=_table(graph),
        strokes=tuple(Stroke(_way(spots[one], spots[other]), width=1.0) for one, other in graph.vouches),
        dots=tuple(_dot(index, spot, graph.people[index]) for index, spot in spots.items()),
        labels=(
            *headings,
            *(Label(spot.x, spot.y + 20, fitted(names[at], spot.room), note=True) for at, spot in spots.items()),
        ),
    )


def _placed(layers: Sequence[tuple[str, list[int]]]) -> tuple[list[Label], dict[int, Spot], int]:
    """The headings of the layers, the places of their people, and how high all of it is."""
    headings, spots, y = list[Label](), dict[int, Spot](), 0
    for title, members in layers:
        headings.append(Label(0, y + 14, title, "start"))
        y += HEAD
        for row in _rows(members):
            room = NARROW / len(row)
            for column, index in enumerate(row):
                spots[index] = Spot(round((column + 0.5) * room, 1), y + 8, room - APART)
            y += ROW
    return headings, spots, y + 4


def _rows(members: Sequence[int]) -> list[Sequence[int]]:
    """The people of a layer in as few rows as there must be, all of them about as long."""
    count = -(-len(members) // ACROSS)
    ends = [len(members) * row // count for row in range(count + 1)]
    return [members[start:end] for start, end in pairwise(ends)]


def _dot(index: int, spot: Spot, one: Neighbour) -> Dot:
    return Dot(spot.x, spot.y, 5.0 if index else 7.0, "fast" if one.hops == 0 else "plain")


def _layers(people: Sequence[Neighbour]) -> list[tuple[str, list[int]]]:
    """Who stands in which layer, by their places, with the layer's heading; no layer is empty."""
    others = list(enumerate(people))[1:]
    distances = sorted({one.hops for _, one in others if one.hops is not None and not one.onward})
    layers = [(_heading(hops), [at for at, one in others if one.hops == hops and not one.onward]) for hops in distances]
    layers.append(("No trust path from the seeds", [at for at, one in others if one.hops is None and not one.onward]))
    layers.append(("This contributor", [0]))
    layers.append(("Whom this contributor vouches for", [at for at, one in others if one.onward]))
    return [layer for layer in layers if layer[1]]


def _heading(hops: int) -> str:
    return "Seeds" if hops == 0 else "One hop from the seeds" if hops == 1 else f"{hops} hops from the seeds"


def _way(start: Spot, end: Spot) -> str:
    """From below the name of who vouches to above whom they vouch for; beside each other straight across."""
    if end.y > start.y:
        return line([(start.x, start.y + 26), (end.x, end.y - 6)])
    return line([(start.x, start.y), (end.x, end.y)])


def fitted(name: str, room: float) -> str:
    """As much of a name as surely fits into so many units, with an ellipsis where it is cut."""
    if sum(map(_width, name)) <= room:
        return name
    kept, left = 0, room - BEYOND
    while kept < len(name) and left >= _width(name[kept]):
        left -= _width(name[kept])
        kept += 1
    return f"{name[:kept].rstrip('.')}…"


def _width(letter: str) -> float:
    if not letter.isascii():
        return BEYOND
    return WIDTHS.get(letter, CAPITAL if letter.isupper() else USUAL)


def _summary(graph: VouchGraph) -> str:
    people = len(graph.people) - 1
    seeds = sum(one.hops == 0 for one in graph.people[1:])
    told = (
        f"{_counted(people, 'person', 'people')} around this contributor, {_counted(seeds, 'seed', 'seeds')} among them"
    )
    if not graph.left_out:
        return f"{told}; vouches run downwards"
    return f"{told}; {graph.left_out:,} more are not drawn; vouches run downwards"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _table(graph: VouchGraph) -> Table:
    rows = []
    for one, other in graph.vouches:
        voucher, subject = graph.people[one], graph.people[other]
        hops = "none" if voucher.hops is None else f"{voucher.hops}"
        rows.append((visible(voucher.person.name), visible(subject.person.name), hops))
    return Table(("Who vouches", "for whom", "Hops from the seeds"), tuple(rows))
