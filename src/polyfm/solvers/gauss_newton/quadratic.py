"""Quadratic models of an objective, and their damped minima: what a Gauss-Newton step solves.

Letters as in `gauss_newton`: theta all parameters, H the Gauss-Newton matrix, g the gradient.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import blas, cho_factor, cho_solve

from polyfm.core.jacobian import Jacobian

CG_STEPS, CG_TOLERANCE = 100, 0.1


class Local(Protocol):
    """The quadratic model of the objective around theta."""

    value: float
    gradient: np.ndarray
    diagonal: np.ndarray  # of H

    def step(self, damping: float) -> np.ndarray:
        """s, where (H + damping diag(H)) s = -g."""
        ...


@dataclass
class Factorised:
    """H itself, for a Cholesky factorisation."""

    value: float
    gradient: np.ndarray
    H: np.ndarray  # its lower half
    bend: np.ndarray | None = None  # what comes to the first of its rows and columns, and need not be positive

    def __post_init__(self):
        self.diagonal = _positive(self.H.diagonal())
        if self.bend is not None:
            self.H[: len(self.bend), : len(self.bend)] += self.bend

    def step(self, damping: float) -> np.ndarray:
        A = self.H.copy(order="F")
        A[np.diag_indices_from(A)] += damping * self.diagonal
        return -cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), self.gradient)


@dataclass
class LowRank:
    """H = B^T B + penalties with fewer rows in B than parameters: by Woodbury a system of the size of the rows."""

    value: float
    gradient: np.ndarray
    B: np.ndarray
    penalties: np.ndarray

    def __post_init__(self):
        self.diagonal = _positive(np.einsum("ij,ij->j", self.B, self.B) + self.penalties)

    def step(self, damping: float) -> np.ndarray:
        E = self.penalties + damping * self.diagonal
        K = blas.dsyrk(1.0, (self.B / np.sqrt(E)).T, trans=1, lower=1)
        K[np.diag_indices_from(K)] += 1.0
        v = self.gradient / E
        inner = cho_solve(cho_factor(K, lower=True, overwrite_a=True, check_finite=False), self.B @ v)
        return (inner @ self.B) / E - v


@dataclass
class Products:
    """H through its products, for conjugate gradients with the diagonal as preconditioner."""

    value: float
    gradient: np.ndarray
    jacobian: Jacobian
    theta: np.ndarray
    curvatures: np.ndarray
    penalties: np.ndarray

    def __post_init__(self):
        self.diagonal = _positive(self.jacobian.squares(self.theta, self.curvatures) + self.penalties)

    def times(self, v: np.ndarray) -> np.ndarray:
        u = self.curvatures * self.jacobian.forward(self.theta, v)
        return self.jacobian.backward(self.theta, u) + self.penalties * v

    def step(self, damping: float) -> np.ndarray:
        s, residual = np.zeros_like(self.gradient), -self.gradient
        z = residual / self.diagonal
        direction, size = z, residual @ z
        target = CG_TOLERANCE**2 * size
        for _ in range(CG_STEPS):
            image = self.times(direction) + damping * self.diagonal * direction
            length = size / (direction @ image)
            s = s + length * direction
            residual = residual - length * image
            z = residual / self.diagonal
            before, size = size, residual @ z
            if size <= target:
                break
            direction = z + (size / before) * direction
        return s


def _positive(diagonal: np.ndarray) -> np.ndarray:
    """A diagonal to divide by, where some parameters do nothing and cost nothing."""
    return np.maximum(diagonal, max(1e-14 * float(diagonal.max(initial=0.0)), 1e-290))
