"""Sums over parts in an order that depends on their number alone, whoever adds up which of them.

The parts are the leaves of a binary tree, and a node is the sum of its two children. A worker hands over the largest
nodes that its parts make up, others add these: always the same numbers in the same order, and so the same bits.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Node = tuple[int, int]  # level, and place within it


def add(left: Any, right: Any) -> Any:
    """The sum of numbers, arrays, or tuples of them; in the memory of `left` where that can be written to."""
    if isinstance(left, tuple):
        return tuple(map(add, left, right))
    if isinstance(left, np.ndarray) and left.ndim and left.flags.writeable:
        left += right
        return left
    return left + right


MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": add,
    "largest": np.maximum,
    "least": np.minimum,
    "each": lambda left, right: left | right,  # answers by part, in a dict
}


class Tree:
    """Values of nodes that wait for their siblings."""

    def __init__(self, n_leaves: int, merge: str):
        self.n_leaves, self.merge = n_leaves, MERGES[merge]
        self.waiting: dict[Node, Any] = {}

    def put(self, node: Node, value: Any) -> None:
        level, place = node
        while 1 << level < self.n_leaves:
            sibling = place ^ 1
            if sibling << level < self.n_leaves:
                if (level, sibling) not in self.waiting:
                    break
                other = self.waiting.pop((level, sibling))
                value = self.merge(value, other) if place < sibling else self.merge(other, value)
            level, place = level + 1, place >> 1
        self.waiting[level, place] = value

    def put_all(self, nodes: Iterable[tuple[Node, Any]]) -> None:
        for node, value in nodes:
            self.put(node, value)

    @property
    def root(self) -> Any:
        ((level, _), value), *others = self.waiting.items()
        assert not others
        assert 1 << level >= self.n_leaves
        return value
