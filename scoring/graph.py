"""Vouches as columns, checked, and as a sparse matrix: what every measure of trust reads. Pure NumPy and SciPy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Vouches as three columns of one length: int64 voucher, int64 subject, float64 weight in (0, 1].

    Self-vouches count nothing; of several vouches for one pair the strongest counts; the order of rows is irrelevant.
    """

    voucher: Integers
    subject: Integers
    weight: Floats


def strongest(voucher: Integers, subject: Integers, weight: Floats, size: int) -> tuple[Integers, Integers, Floats]:
    """The edges sorted by (voucher, subject), each pair once with its largest weight."""
    keys = voucher * size + subject
    if (keys[1:] > keys[:-1]).all():
        return voucher, subject, weight
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    firsts = order[starts]
    return voucher[firsts], subject[firsts], np.maximum.reduceat(weight[order], starts)


def matrix_of(voucher: Integers, subject: Integers, amount: Floats, size: int) -> csr_array:
    """A sparse size x size matrix from edges that are sorted by (voucher, subject)."""
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(voucher, minlength=size), out=starts[1:])
    return csr_array((amount, subject, starts), shape=(size, size))


def checked_edges(edges: Edges, size: int, heaviest: float) -> tuple[Integers, Integers, Floats]:
    """The columns of `edges` with their types; ValueError where people or weights make no sense."""
    voucher = checked_people(edges.voucher, size, "voucher")
    subject = checked_people(edges.subject, size, "subject")
    weight = np.asarray(edges.weight, dtype=np.float64)
    if not len(voucher) == len(subject) == len(weight):
        raise ValueError("voucher, subject and weight must have one length")
    if not (np.isfinite(weight) & (weight >= 0) & (weight <= heaviest)).all():
        raise ValueError(f"the weight of a vouch must be a number in [0, {heaviest:g}]")
    return voucher, subject, weight


def checked_people(people: Integers, size: int, role: str) -> Integers:
    """`people` as int64; ValueError names the first one outside 0..size-1."""
    ids = np.asarray(people, dtype=np.int64)
    unknown = (ids < 0) | (ids >= size)
    if unknown.any():
        raise ValueError(f"unknown {role} {ids[unknown][0]}: people are numbered 0 to {size - 1}")
    return ids
