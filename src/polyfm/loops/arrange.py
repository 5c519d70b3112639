"""Loops that arrange X before the first epoch: which columns are updated together, and their entries in that order."""

import numpy as np

from polyfm.loops.jit import at, loop


@loop
def fields_of(indptr, rows, data, order, bounds, fields, values):
    """fields[g, i] and values[g, i]: the column of group g that sample i has, and its value."""
    for g in range(bounds.shape[0] - 1):
        for c in range(bounds[g], bounds[g + 1]):
            j = at(order, c, c)
            for e in range(indptr[j], indptr[j + 1]):
                fields[g, rows[e]] = j
                if values is not None:
                    values[g, rows[e]] = data[e]


def colour(indptr, rows, n_samples):
    """Greedy colouring in two passes over the non-zeros: columns of one colour have no row in common.

    A row remembers the colours of its columns as the bits of one word. A column takes the first colour that none of
    its rows has; with all 64 in use it gets the number 64, which stands for none. Empty columns stay with the last.
    """
    colours = np.zeros(indptr.shape[0] - 1, dtype=np.uint8)
    _colour(indptr, rows, np.zeros(n_samples, dtype=np.uint64), colours)
    return colours


@loop(allocates=False)
def _colour(indptr, rows, taken, colours):
    one = np.uint64(1)
    for j in range(indptr.shape[0] - 1):
        if indptr[j] == indptr[j + 1]:
            colours[j] = colours[j - 1] if j > 0 else 0
            continue
        used = np.uint64(0)
        for e in range(indptr[j], indptr[j + 1]):
            used |= taken[rows[e]]
        c = np.uint64(0)
        while c < 64 and (used >> c) & one:
            c += one
        colours[j] = c
        if c < 64:
            for e in range(indptr[j], indptr[j + 1]):
                taken[rows[e]] |= one << c


@loop(streaming=True, allocates=False)
def is_sound(indptr, indices, n_values, n_lines, width):
    """Whether indptr (n_lines + 1,) rises from 0, and the indices it leads to are from 0 to width - 1."""
    if indptr.shape[0] != n_lines + 1 or indptr[0] != 0:
        return False
    rises = True
    for line in range(n_lines):
        rises &= indptr[line] <= indptr[line + 1]
    nnz = indptr[n_lines]
    if not rises or nnz > indices.shape[0] or nnz > n_values:
        return False
    inside = True
    for e in range(nnz):
        inside &= (indices[e] >= 0) & (indices[e] < width)
    return inside


@loop
def in_turns(indptr, rows, data, order, turns, blocks, cuts, crowds, new_rows, new_data):
    """The entries of the columns in another order, where blocks of rows cut each column, and the crowd of each entry:
    how many columns of its turn have its row, at most 255; 1 behind the last turn."""
    n_blocks = blocks.shape[0] - 1
    crowd = np.zeros(blocks[n_blocks], dtype=np.int64)
    end = 0
    for c in range(order.shape[0]):
        b = 0
        cuts[c, 0] = end
        for e in range(indptr[order[c]], indptr[order[c] + 1]):
            while rows[e] >= blocks[b + 1]:
                b += 1
                cuts[c, b] = end
            new_rows[end] = rows[e]
            if data is not None:
                new_data[end] = data[e]
            end += 1
        cuts[c, b + 1 :] = end
    crowds[:] = 1
    for g in range(turns.shape[0] - 1):
        if turns[g] == turns[g + 1]:
            continue
        start = cuts[turns[g], 0]
        stop = cuts[turns[g + 1] - 1, n_blocks]
        for e in range(start, stop):
            crowd[new_rows[e]] += 1
        for e in range(start, stop):
            crowds[e] = min(crowd[new_rows[e]], 255)
        for e in range(start, stop):
            crowd[new_rows[e]] = 0
