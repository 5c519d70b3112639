"""Vectors of contexts and items: products of features across the two sides, up to a degree.

    f(u, v) = sum_(d = 2..m) sum_s sum_(t = 1..d-1) A^t(p_ds, u) A^(d-t)(p_ds, v)  (+ a bias of the item)

Degree 2 is the inner product of the sums of both sides' factors. Higher degrees add products of three and more features
of which some are the context's and some the item's.
"""

import itertools

import numpy as np
import scipy.sparse as sp

from polyfm.loops import across as loops


def width(degree: int, k: int) -> int:
    """Numbers in a vector."""
    return k * degree * (degree - 1) // 2


def arrays_of(X: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sound CSR matrix as loops read it."""
    return X.indptr.astype(np.uint32), X.indices.astype(np.uint32), X.data.astype(np.float64)


def parts(X: sp.csr_matrix, T: np.ndarray, degree: int, k: int) -> np.ndarray:
    """Of each row, A^1 .. A^(d-1) for each degree d."""
    if degree == 2:
        return X @ T[:, :k]
    A = np.empty((X.shape[0], width(degree, k)))
    loops.all_parts(arrays_of(X), np.ascontiguousarray(T), degree, k, A)
    return A


def turned(A: np.ndarray, degree: int, k: int) -> np.ndarray:
    """Parts in the order in which they meet those of the other side."""
    return A if degree == 2 else A[:, turned_columns(degree, k)]


def turned_columns(degree: int, k: int) -> np.ndarray:
    columns, first = [], 0
    for d in range(2, degree + 1):
        block = first + np.arange((d - 1) * k).reshape(d - 1, k)
        columns.append(block[::-1].ravel())
        first += (d - 1) * k
    return np.concatenate(columns)


def vectors(which: int, X: sp.csr_matrix, T: np.ndarray, degree: int, k: int, biased: bool) -> np.ndarray:
    """Those of contexts (0) or of items (1), whose inner products are the scores."""
    A = parts(X, T, degree, k)
    if which == 1:
        A = turned(A, degree, k)
    if not biased:
        return A
    return np.column_stack([A, X @ T[:, -1] if which == 1 else np.ones(X.shape[0])])


def terms(
    rows: tuple[sp.csr_matrix, sp.csr_matrix], factors: tuple[np.ndarray, ...], degree: int, k: int, biased: bool
) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """A score as a sum over sets of features, some of the context and some of the item: these and what they give, the
    largest first."""
    found = []
    x = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in rows]
    for d in range(2, degree + 1):
        own = slice((d - 2) * k, (d - 1) * k)
        for t in range(1, d):
            for mine in itertools.combinations(x[0], t):
                for other in itertools.combinations(x[1], d - t):
                    product = np.ones(k)
                    for side, features in enumerate((mine, other)):
                        for j in features:
                            product = product * x[side][j] * factors[side][j, own]
                    found.append((mine, other, float(product.sum())))
    if biased:
        found += [((), (j,), value * float(factors[1][j, -1])) for j, value in x[1].items()]
    return sorted(found, key=lambda term: -abs(term[2]))
