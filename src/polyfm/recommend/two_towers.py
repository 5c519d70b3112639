"""Two towers: a fitted model of any degree as an inner product of a context's vector and a candidate's.

A row is a sum of two parts with disjoint features, x = u + v. Every form can be multiplied out over the two,

    K(p, u + v) = sum_q c_q K_q(p, u) K_(-1-q)(p, v)

(the `parts` of a form), where the first and the last term belong to one side alone.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, check_is_fitted

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.layout import layout
from polyfm.core.model import Group
from polyfm.core.parameters import Parameters
from polyfm.core.sparse import checked_sparse
from polyfm.loops import rows

NUMBERS_AT_ONCE = 2**22  # of working space


def towers(model: Any, contexts: Any, candidates: Any, *, target: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of contexts and of candidates whose inner products are the model's predictions.

    f(u + v) = <contexts[c], candidates[i]>, for any kernel, degree and method. For the direct form of a factorization
    machine of degree m and k bases, a vector has 2 + k (m - 1) numbers.

    Parameters
    ----------
    model : estimator
        A fitted regressor or classifier of polyfm. Of a classifier, the inner product is the decision function.
    contexts, candidates : {array-like, sparse matrix} of shape (n_contexts, n_features), (n_candidates, n_features)
        Rows of two disjoint sets of features: those of the users and the situation, and those of the items. The other
        features of each are zero.
    target : int, default=None
        Of a classifier with more than two classes, the position of one of them in ``classes_``.

    Returns
    -------
    contexts, candidates : ndarray of shape (n_contexts, n_numbers), (n_candidates, n_numbers)
        Of float64. Put them into an index for the largest inner products, or pass them to `top_n`.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.recommend import towers
    >>> X = np.random.RandomState(0).standard_normal((50, 5))
    >>> model = FactorizationMachineRegressor(degree=3, random_state=0).fit(X, X[:, 0] * X[:, 3] * X[:, 4])
    >>> u, v = X[:4] * [1, 1, 1, 0, 0], X[:6] * [0, 0, 0, 1, 1]
    >>> contexts, candidates = towers(model, u, v)
    >>> bool(np.allclose(contexts @ candidates.T, [[model.predict([a + b])[0] for b in v] for a in u]))
    True
    """
    check_is_fitted(model)
    fitted = getattr(model, "_fitted", None)
    if not isinstance(fitted, Fitted):
        raise TypeError(
            f"towers takes a fitted estimator of polyfm, got {type(model).__name__}. Of a pipeline, pass the last step "
            "and encoded rows."
        )
    parameters = _target(fitted, target)
    U, V = _rows("contexts", contexts, model.n_features_in_), _rows("candidates", candidates, model.n_features_in_)
    _check_disjoint(U, V)
    return towers_of(fitted, parameters, U, V)


def towers_of(fitted: Fitted, parameters: Parameters, U: Any, V: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same of checked rows in float64."""
    return context_tower(fitted, parameters, U), candidate_tower(fitted, parameters, V)


def context_tower(fitted: Fitted, parameters: Parameters, U: Any) -> np.ndarray:
    """[w0 + <w, u> + sum_s lambda_s K(p_s, u), 1, and for each basis the parts that lie between]."""
    alone = np.full(U.shape[0], np.float64(parameters.intercept[0]))
    return _tower(fitted, parameters, U, alone, is_context=True)


def candidate_tower(fitted: Fitted, parameters: Parameters, V: Any) -> np.ndarray:
    """[1, <w, v> + sum_s lambda_s K(p_s, v), and for each basis lambda_s c_q times the parts that lie between]."""
    return _tower(fitted, parameters, V, np.zeros(V.shape[0]), is_context=False)


def _tower(fitted: Fitted, parameters: Parameters, X: Any, alone: np.ndarray, is_context: bool) -> np.ndarray:
    if fitted.model.fit_linear:
        alone += X @ parameters.coef.astype(np.float64)
    design = Design(X)
    between = []
    for group, P, lams in fitted.model.each(parameters):
        weights = np.asarray(lams, dtype=np.float64) * group.form.scale
        parts = parts_of(group, P, weights, design, with_dummies=is_context)
        alone += parts[-1] @ weights
        inner = parts[1:-1] if is_context else parts[-2:0:-1]
        if not is_context:
            c = group.form.part_weights or (1.0,) * len(parts)
            inner = [part * (weights * c_q) for part, c_q in zip(inner, c[1:-1], strict=True)]
        between += inner
    ones = np.ones(len(alone))
    found = np.column_stack([alone, ones, *between] if is_context else [ones, alone, *between])
    if not np.all(np.isfinite(found)):
        raise ValueError("The model's vectors are not finite: its features are too large. Scale them before training.")
    return found


def parts_of(group: Group, P: np.ndarray, weights: np.ndarray, design: Design, with_dummies: bool) -> list[np.ndarray]:
    """The parts of all rows, each an array (rows, bases). Dummy features belong to the contexts."""
    if group.form.parts is None:
        raise ValueError(f"The form {type(group.form).__name__} does not say how it splits: it has no `parts`.")
    bases = layout(group, P, weights, np.float64)
    if not with_dummies:
        bases = bases._replace(dummies=0)
    n, k = design.shape[0], group.n_bases
    slots, width = bases.slots, bases.T.shape[2]
    block = max(1, NUMBERS_AT_ONCE // (slots * width))
    found: list[np.ndarray] = []
    for lo in range(0, n, block):
        hi = min(n, lo + block)
        space = np.empty((hi - lo, slots, width))
        rows.working_space(bases, tuple(design.rows), lo, hi, space)
        parts = group.form.parts(space.transpose(1, 0, 2)[:, :, :k])
        found = found or [np.empty((n, k)) for _ in parts]
        for whole, part in zip(found, parts, strict=True):
            whole[lo:hi] = part
    return found


def _target(fitted: Fitted, target: int | None) -> Parameters:
    n = len(fitted.targets)
    if target is None and n > 1:
        raise ValueError(f"The model has a polynomial for each of its {n} classes. Name one: target=0 to {n - 1}.")
    if target is not None and not 0 <= target < n:
        raise ValueError(f"target={target} is not one of the model's {n} target(s), 0 to {n - 1}.")
    return fitted.targets[target or 0]


def _rows(name: str, X: Any, n_features: int) -> Any:
    X = checked_sparse(X, name)
    X = check_array(X, accept_sparse="csr", dtype=np.float64, input_name=name)
    if X.shape[1] != n_features:
        raise ValueError(f"{name} has {X.shape[1]} features, where the model has {n_features}.")
    return X


def _used(X: Any) -> np.ndarray:
    """Which features some row has."""
    if not sp.issparse(X):
        return np.any(X != 0, axis=0)
    used = np.zeros(X.shape[1], dtype=bool)
    used[X.indices[X.data != 0]] = True
    return used


def _check_disjoint(U: Any, V: Any) -> None:
    both = np.flatnonzero(_used(U) & _used(V))
    if len(both):
        more = f", and so are {len(both) - 1} more" if len(both) > 1 else ""
        raise ValueError(
            f"Feature {both[0]} is in contexts and in candidates{more}. A row is the sum of a context and a "
            "candidate, which share no feature: give it to one of the two."
        )
