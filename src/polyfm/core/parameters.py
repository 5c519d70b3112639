"""Parameters: everything that training changes."""

from typing import NamedTuple

import numpy as np


class Parameters(NamedTuple):
    """Everything that training changes. `factors` and `lambdas` have one array for each group of the model."""

    factors: tuple[np.ndarray, ...]  # (bases, factors, features + dummies)
    lambdas: tuple[np.ndarray, ...]  # (bases,)
    coef: np.ndarray  # (features,)
    intercept: np.ndarray  # (1,)

    def copy(self, dtype=None) -> "Parameters":
        return Parameters(
            tuple(P.astype(dtype or P.dtype, order="C") for P in self.factors),
            tuple(lams.astype(dtype or lams.dtype) for lams in self.lambdas),
            self.coef.astype(dtype or self.coef.dtype),
            self.intercept.astype(dtype or self.intercept.dtype),
        )

    def to_arrays(self, prefix: str = "") -> dict[str, np.ndarray]:
        """All arrays by name, for files."""
        return {
            **{f"{prefix}factors{g}": P for g, P in enumerate(self.factors)},
            **{f"{prefix}lambdas{g}": lams for g, lams in enumerate(self.lambdas)},
            f"{prefix}coef": self.coef,
            f"{prefix}intercept": self.intercept,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], prefix: str = "") -> "Parameters":
        n_groups = sum(name.startswith(f"{prefix}factors") for name in arrays)
        return cls(
            tuple(arrays[f"{prefix}factors{g}"] for g in range(n_groups)),
            tuple(arrays[f"{prefix}lambdas{g}"] for g in range(n_groups)),
            arrays[f"{prefix}coef"],
            arrays[f"{prefix}intercept"],
        )
