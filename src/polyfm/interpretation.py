"""Reading a fitted model: its strongest interactions, and one prediction taken apart.

A fitted model is a polynomial, f(x) = sum over monomials of weight * x_j1 ... x_jn. For each degree n, whatever the
method, the kernel and `fit_lower`, the weights are those of one kernel expansion, with multiplicity 1 for the ANOVA
kernel (distinct features) and n!/(repetitions) for the homogeneous one:

    weight(j1 .. jn) = multiplicity * sum_s lam_s P[j1, s] ... P[jn, s]

Letters: d features, k bases, P (d x k) the bases *by feature*, lam (k), a (d) norms of features.
"""

import math
import warnings
from collections import Counter
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm._base import PolynomialModel
from polyfm.conversion import lifted_to_direct
from polyfm.model import Group

ROWS, COLUMNS = 512, 4096  # a block of weights that stays in the processor's cache
LEADS = 64  # features whose continuations are bounded together
BUDGET = 1e12  # multiply-adds of one search
SINGLE = 1e-10  # thresholds below this part of the largest bound are out of single precision's reach


def interactions(estimator, *, degree=None, top=20, feature_names=None, scale=None, target=None, budget=BUDGET):
    """The strongest products of features, by name.

    The model is a polynomial,

        f(x) = sum over monomials  weight * x_j1 x_j2 ... x_jm,

    and `weight` is the number that multiplies the monomial. For the ANOVA kernel the features of a monomial are
    distinct and the weight is W_(j1..jm) = sum_s lambda_s p_(j1 s) ... p_(jm s). For the homogeneous kernel features
    may repeat and the weight is W times the number of distinct orders of j1 .. jm: 2 W_ij for x_i x_j, W_ii for x_i^2.
    Dummy features (``fit_lower="augment"``) count towards the lower degrees that they stand for.

    The result is exact, though the d^m weights are never formed: products whose weight cannot reach the list, by
    Hoelder's inequality |W_(j1..jm)| <= |q_j1| ... |q_jm| with |q_j|^m = sum_s |lambda_s| |p_js|^m, are left out many
    at a time. Where all features are about equally strong, there are many of them and m >= 3, this may take longer
    than anyone would wait; `budget` then ends the search, with a warning that says how much a missing product can
    weigh at most and how many rows of the table are certain all the same.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm.
    degree : int, default=None
        Degree of the products; 1 for linear weights. None means the model's highest degree.
    top : int, default=20
        How many to list.
    feature_names : sequence of str of length n_features, default=None
        By default the names seen in `fit`, or x0, x1, ...
    scale : array-like of shape (n_features,), default=None
        Spreads of the features. A weight is multiplied by those of its features, so that weights of features in
        different units compare. ``StandardScaler(with_mean=False).fit(X).scale_`` gives standard deviations of dense
        and sparse data.
    target : object, default=None
        The class whose weights to read, where a classifier has more than two. With two classes, weights speak for
        ``classes_[1]``.
    budget : float or None, default=1e12
        Most multiply-adds to spend; 1e12 takes a minute or so. None means no limit.

    Returns
    -------
    table : pandas.DataFrame
        Columns `feature_1` .. `feature_m` and `weight`, the largest magnitude first.

    See Also
    --------
    explain : The terms of one prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.interpretation import interactions
    >>> X = np.random.RandomState(0).standard_normal((200, 4))
    >>> y = 3 * X[:, 0] * X[:, 2] - X[:, 1] * X[:, 3]
    >>> fm = FactorizationMachineRegressor(init_lambdas="random_signs", random_state=0).fit(X, y)
    >>> interactions(fm, top=2, feature_names=["age", "sex", "dose", "site"]).round(1)
      feature_1 feature_2  weight
    0       age      dose     3.0
    1       sex      site    -1.0
    """
    pd = _pandas("interactions")
    polynomial = _Polynomial.of(estimator, target)
    d = polynomial.n_features
    names = _names(estimator, feature_names)
    degree = polynomial.check_degree(degree)
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 1:
        raise ValueError(f"top must be an integer >= 1, got {top!r}.")
    if budget is not None and not (isinstance(budget, Real) and budget > 0):
        raise ValueError(f"budget must be a number > 0 or None for no limit, got {budget!r}.")
    terms = polynomial.terms(degree, scale=_spreads(scale, d))
    features, weights, bound = _strongest(terms, int(top), budget)
    if bound is not None:
        _warn_of_missing(degree, weights, bound, f"budget={budget:g} multiply-adds", "Raise budget (None: no limit).")
    columns = {f"feature_{t + 1}": [names[j] for j in features[:, t]] for t in range(degree)}
    return pd.DataFrame({**columns, "weight": weights})


def explain(estimator, x, *, feature_names=None, target=None, max_degree_terms=100):
    """One prediction, taken apart into terms that add up to it.

    f(x) = sum over monomials of weight * x_j1 ... x_jn, where only the features that are not 0 in x matter. The sum of
    the column `contribution` is `predict` of a regressor and `decision_function` of a classifier, up to rounding.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm.
    x : {array-like, sparse matrix} of shape (n_features,) or (1, n_features)
        The row to explain, as `predict` would take it.
    feature_names : sequence of str of length n_features, default=None
        By default the names seen in `fit`, or x0, x1, ...
    target : object, default=None
        The class to explain, where a classifier has more than two. With two classes, contributions speak for
        ``classes_[1]``.
    max_degree_terms : int, default=100
        Most interactions to list for each degree. Where there are more, these are the ones that contribute most, and
        one more row holds the exact sum of the others.

    Returns
    -------
    table : pandas.DataFrame
        By degree, and the largest contributions first. Columns `term` (a text), `degree`, `value` (of the product of
        features), `weight` and `contribution`, the product of the two. Degree 0 is the intercept.

    See Also
    --------
    interactions : The strongest weights of the model, for no row in particular.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.interpretation import explain
    >>> X = np.random.RandomState(0).standard_normal((200, 4))
    >>> y = 5 + 3 * X[:, 0] * X[:, 2] - X[:, 1]
    >>> fm = FactorizationMachineRegressor(alpha=0.1, beta=0.1, tol=0.01, random_state=0).fit(X, y)
    >>> table = explain(fm, [1.0, 2.0, 1.0, 0.0], feature_names=["age", "sex", "dose", "site"])
    >>> table[np.abs(table["contribution"]) > 0.1].round(1)
             term  degree  value  weight  contribution
    0   intercept       0    1.0     5.0           5.0
    1         sex       1    2.0    -1.0          -2.0
    4  age x dose       2    1.0     3.0           3.0
    >>> bool(np.isclose(table["contribution"].sum(), fm.predict([[1.0, 2.0, 1.0, 0.0]])[0]))
    True
    """
    pd = _pandas("explain")
    polynomial = _Polynomial.of(estimator, target)
    names = _names(estimator, feature_names)
    if not isinstance(max_degree_terms, Integral) or isinstance(max_degree_terms, bool) or max_degree_terms < 0:
        raise ValueError(f"max_degree_terms must be an integer >= 0, got {max_degree_terms!r}.")
    present, values = _nonzeros(estimator, x)
    constant = polynomial.constant()
    rows = [("intercept", 0, 1.0, constant, constant)]
    for degree in polynomial.degrees:
        terms = polynomial.terms(degree, columns=present)
        here = terms._replace(P=terms.P * values[:, None])  # the weights of `here` are contributions
        count = here.n_monomials
        listed = count if degree == 1 else min(count, int(max_degree_terms))
        features, contributions, bound = _strongest(here, listed, BUDGET)
        if bound is not None:
            _warn_of_missing(
                degree, contributions, bound, f"{BUDGET:g} multiply-adds", "The sum is exact all the same."
            )
        weights = terms.weights(features)
        for js, weight, contribution in zip(features, weights, contributions, strict=True):
            rows.append((monomial([names[j] for j in present[js]]), degree, np.prod(values[js]), weight, contribution))
        if len(features) < count:
            others = f"all {count - len(features):,} {'other ' if listed else ''}interactions of degree {degree}"
            rows.append((others, degree, np.nan, np.nan, here.total() - np.sum(contributions)))
    return pd.DataFrame(rows, columns=["term", "degree", "value", "weight", "contribution"])


# -- the polynomial that a model is -----------------------------------------------------------------------------------


class Terms(NamedTuple):
    """All monomials of one degree: weight = multiplicity * sum_s lam_s P[j1, s] ... P[jn, s]."""

    degree: int
    repeats: bool  # whether features may repeat: the homogeneous kernel
    lam: np.ndarray  # (k,)
    P: np.ndarray  # (d, k)

    @property
    def n_monomials(self) -> int:
        d = len(self.P)
        return math.comb(d + self.degree - 1, self.degree) if self.repeats else math.comb(d, self.degree)

    def weights(self, features: np.ndarray) -> np.ndarray:
        """Weights of monomials, given as rows of features in rising order."""
        products = self.P[features[:, 0]]
        for t in range(1, self.degree):
            products = products * self.P[features[:, t]]
        W = products @ self.lam
        if not self.repeats:
            return W
        run, repetitions = np.ones(len(features)), np.ones(len(features))
        for t in range(1, self.degree):
            run = np.where(features[:, t] == features[:, t - 1], run + 1, 1)
            repetitions *= run
        return W * math.factorial(self.degree) / repetitions

    def total(self) -> float:
        """The sum of all weights: the kernel expansion at x = (1, .., 1)."""
        if self.repeats:
            return float(self.lam @ self.P.sum(axis=0) ** self.degree)
        return float(self.lam @ _elementary(self.P, self.degree))


class _Polynomial(NamedTuple):
    """One target of a fitted estimator, in double precision."""

    groups: list[tuple[Group, np.ndarray, np.ndarray]]  # group, factors (bases, factors, features + dummies), lambdas
    coef: np.ndarray | None
    intercept: float
    n_features: int

    @classmethod
    def of(cls, estimator, target) -> "_Polynomial":
        if not isinstance(estimator, PolynomialModel):
            remedy = "Pass its last step, pipeline[-1], and data as the steps before it, pipeline[:-1], transform it."
            if not isinstance(estimator, Pipeline):
                remedy = "Pass a fitted FactorizationMachine* or PolynomialNetwork* (of a search, best_estimator_)."
            raise TypeError(f"Only estimators of polyfm can be read, got {type(estimator).__name__}. {remedy}")
        check_is_fitted(estimator)
        model, p = estimator._fitted_model, estimator._parameters[_target_index(estimator, target)]
        groups = [
            (group, P.astype(np.float64, copy=False), lam.astype(np.float64))
            for group, P, lam in zip(model.groups, p.factors, p.lambdas, strict=True)
        ]
        coef = p.coef.astype(np.float64) if model.fit_linear else None
        return cls(groups, coef, float(p.intercept[0]), estimator.n_features_in_)

    @property
    def degrees(self) -> list[int]:
        """The degrees >= 1 that have terms."""
        found = {1} if self.coef is not None else set()
        for group, _, _ in self.groups:
            found.update(range(1 if group.n_dummies else group.degree, group.degree + 1))
        return sorted(found)

    def check_degree(self, degree) -> int:
        if degree is None:
            return self.degrees[-1]
        if degree not in self.degrees:
            raise ValueError(
                f"degree={degree!r}, but the model has terms of degree {', '.join(map(str, self.degrees))} only. Pass "
                "one of these, or fit the model with another degree, fit_lower or fit_linear."
            )
        return int(degree)

    def constant(self) -> float:
        """The intercept, and what a dummy feature of the homogeneous kernel adds to it."""
        no_features = np.array([], dtype=int)
        return self.intercept + sum(
            float(np.sum(_lowered(group, *_direct(group, P, lam, no_features), 0)[0]))
            for group, P, lam in self.groups
            if group.n_dummies
        )

    def terms(self, degree: int, *, columns: np.ndarray | None = None, scale: np.ndarray | None = None) -> Terms:
        """All terms of one degree, of some of the features."""
        columns = np.arange(self.n_features) if columns is None else columns
        lams, bases = [np.empty(0)], [np.empty((len(columns), 0))]
        if degree == 1 and self.coef is not None:
            lams.append(np.ones(1))
            bases.append(self.coef[columns, None])
        for group, P, lam in self.groups:
            if degree == group.degree or (degree < group.degree and group.n_dummies):
                lam, P = _lowered(group, *_direct(group, P, lam, columns), degree)
                lams.append(lam)
                bases.append(P.T)
        stacked = np.ascontiguousarray(np.hstack(bases))
        if scale is not None:
            stacked *= scale[columns, None]
        return Terms(degree, self.groups[0][0].kernel == "homogeneous", np.concatenate(lams), stacked)


def _direct(group: Group, P: np.ndarray, lam: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """lambdas (k) and bases (k, columns + dummies) of the direct form of a group."""
    dummies = np.arange(P.shape[2] - group.n_dummies, P.shape[2])
    P = P[:, :, np.concatenate([columns, dummies])]
    if group.method == "direct":
        return lam, P[:, 0]
    # Factors of very different norms would lose digits in the sums that the conversion takes: share the norm first.
    norms = np.linalg.norm(P, axis=2, keepdims=True)
    alive = norms.min(axis=1, keepdims=True, initial=np.inf) > 0
    shared = np.exp(np.mean(np.log(np.where(alive, norms, 1.0)), axis=1, keepdims=True))
    U = np.where(alive, P * (shared / np.where(alive, norms, 1.0)), 0.0)
    U[:, 0] *= lam[:, None]
    return lifted_to_direct(U.transpose(1, 0, 2))


def _lowered(group: Group, lam: np.ndarray, P: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The terms of lower degree that dummy features of value 1 give: some of the factors are dummies (section 8)."""
    m, c = group.degree, group.n_dummies
    if c == 0:
        return lam, P
    P, dummies = P[:, : P.shape[1] - c], P[:, P.shape[1] - c :]
    if group.kernel == "homogeneous":
        return lam * math.comb(m, degree) * dummies[:, 0] ** (m - degree), P
    return lam * _elementary(dummies.T, m - degree), P


def _elementary(Q: np.ndarray, degree: int) -> np.ndarray:
    """The sum over sets of `degree` rows of their products, for each column: A^degree(q, 1), as in Lemma 2."""
    A = np.zeros((degree + 1, Q.shape[1]))
    A[0] = 1.0
    for q in Q:
        A[1:] += q * A[:-1]
    return A[degree]


# -- the search for the strongest weights -----------------------------------------------------------------------------


class _BudgetSpentError(Exception):
    pass


def _strongest(terms: Terms, top: int, budget: float | None) -> tuple[np.ndarray, np.ndarray, float | None]:
    """The monomials (rows of features in rising order) of the `top` largest |weight|, largest first, their weights,
    and, where the budget was too small to be sure, a bound on the |weight| of all others."""
    top, bound = min(top, terms.n_monomials), None
    if top == 0:
        features = np.empty((0, terms.degree), dtype=int)
    elif terms.degree == 1:
        features = _largest(terms.P @ terms.lam, top)[:, None]
    else:
        search = _Search(terms, top, budget)
        features, bound = np.sort(search.run(), axis=1), search.bound
    weights = terms.weights(features)
    order = np.lexsort((*features.T[::-1], -np.abs(weights)))
    return features[order[:top]], weights[order[:top]], bound


def _warn_of_missing(degree: int, weights: np.ndarray, bound: float, spent: str, remedy: str) -> None:
    certain = np.count_nonzero(np.abs(weights) >= bound)
    warnings.warn(
        f"The search for interactions of degree {degree} ended after {spent}. What it did not see weighs at most "
        f"{bound:.3g} in magnitude: the first {certain} of the {len(weights)} listed are certainly the strongest, the "
        f"others are the strongest seen. {remedy}",
        stacklevel=3,
    )


def _largest(values: np.ndarray, size: int) -> np.ndarray:
    """Positions of the `size` largest magnitudes, in no order."""
    if len(values) <= size:
        return np.arange(len(values))
    return np.argpartition(-np.abs(values), size - 1)[:size]


class _Search:
    """Branch and bound over monomials.

    A node is a prefix of features: with v = lam p_i1 .. p_it, there remain r features to choose, whose weight is
    sum_s v_s p_js .. p_ks. By Hoelder's inequality it is at most a_j .. a_k with a_j^r = sum_s |v_s| |p_js|^r. In the
    order of falling a, once one product of the a's is below the weakest of a full list, so are all that follow.
    The last two features are chosen by blocks of a matrix product, first in single precision with a margin for its
    rounding, then, where something may be strong enough, in double precision.
    """

    def __init__(self, terms: Terms, top: int, budget: float | None):
        # Units in which no power overflows.
        unit, weight = np.abs(terms.P).max(initial=0.0) or 1.0, np.abs(terms.lam).max(initial=0.0) or 1.0
        self.degree, self.repeats, self.top = terms.degree, terms.repeats, top
        self.P, self.lam = terms.P / unit, terms.lam / weight
        if self.repeats:
            weight *= math.factorial(self.degree)
        self.unit = unit**self.degree * weight
        self.powers = {r: np.abs(self.P) ** r for r in range(2, self.degree)}
        self.left = math.inf if budget is None else budget
        self.gap = 0 if self.repeats else 1  # the next feature may be the same one, or not
        self.features, self.weights = np.empty((0, self.degree), dtype=int), np.empty(0)
        self.threshold = -1.0  # the weakest |weight| of a full list
        self.frontier = math.inf  # nothing that is still to come weighs more
        self.bound: float | None = None

    def run(self) -> np.ndarray:
        a = (np.abs(self.P) ** self.degree @ np.abs(self.lam)) ** (1 / self.degree)
        order = np.argsort(-a, kind="stable")
        try:
            self.visit(self.lam, order, a[order], ())
            return self.features
        except _BudgetSpentError:
            self.bound = self.frontier * self.unit
            guesses = [self.guess(order[i : i + LEADS]) for i in range(0, min(len(order), 4 * LEADS), LEADS)]
            return np.unique(np.sort(np.vstack([self.features, *guesses]), axis=1), axis=0)

    def guess(self, leads: np.ndarray) -> np.ndarray:
        """Greedy continuations, where the search must end early: features of the largest bound, the last of the largest
        weight."""
        chosen, V = leads[:, None], self.lam * self.P[leads]
        for r in range(self.degree - 1, 0, -1):
            A = np.abs(V) @ self.powers[r].T if r > 1 else np.abs(V @ self.P.T)
            if not self.repeats:
                np.put_along_axis(A, chosen, -1.0, axis=1)
            best = A.argmax(axis=1)
            chosen, V = np.column_stack([chosen, best]), V * self.P[best]
        return chosen

    def spend(self, multiply_adds: int) -> None:
        if multiply_adds > self.left:
            raise _BudgetSpentError
        self.left -= multiply_adds

    def keep(self, prefix: tuple[int, ...], last: np.ndarray, weights: np.ndarray) -> None:
        """Let monomials prefix + last (n, 2) compete for the list."""
        if len(weights) == 0:
            return
        new = np.hstack([np.tile(np.array(prefix, dtype=int), (len(last), 1)), last])
        self.features, self.weights = np.vstack([self.features, new]), np.append(self.weights, weights)
        if len(self.weights) >= self.top:
            best = _largest(self.weights, self.top)
            self.features, self.weights = self.features[best], self.weights[best]
            self.threshold = float(np.abs(self.weights).min())

    def visit(self, v: np.ndarray, features: np.ndarray, a: np.ndarray, prefix: tuple[int, ...]) -> None:
        """Search all monomials that continue `prefix` with `features`, which are in the order of falling a."""
        r, n, gap = self.degree - len(prefix), len(features), self.gap
        if r == 2:
            self.visit_pairs(v, features, a, prefix)
            return
        i = 0
        while i + gap * (r - 1) < n:
            bound = float(np.prod(a[i : i + r])) if gap else float(a[i] ** r)
            if bound <= self.threshold:
                return
            if not prefix:
                self.frontier = bound
            leads = features[i : i + LEADS]
            reach = int(np.count_nonzero(a * (a[i] * a[min(i + gap, n - 1)] ** (r - 2)) > self.threshold))
            rest = features[i + gap : reach]
            self.spend(len(leads) * len(rest) * len(v))
            V = v * self.P[leads] * self.shares(leads, prefix)[:, None]
            A = np.abs(V) @ self.powers[r - 1][rest].T  # a^(r - 1) for the continuations of each lead
            for j, lead in enumerate(leads):
                powered = A[j, j:]
                least = self.threshold ** (r - 1) if self.threshold > 0 else self.threshold
                near = np.flatnonzero(powered * powered.max(initial=0.0) ** (r - 2) > least)
                near = near[np.argsort(-powered[near], kind="stable")]
                if len(near) > gap * (r - 2):
                    self.visit(V[j], rest[j:][near], powered[near] ** (1 / (r - 1)), (*prefix, int(lead)))
            i += LEADS

    def visit_pairs(self, v: np.ndarray, features: np.ndarray, a: np.ndarray, prefix: tuple[int, ...]) -> None:
        """Search all pairs that complete `prefix`, block by block."""
        n, gap = len(features), self.gap
        if n <= gap or a[0] * a[gap] <= self.threshold:
            return
        shares = self.shares(features, prefix)
        right = self.P[features] * shares[:, None]
        left = right * v
        # In single precision both sides have rows of norm a / a[0] <= 1, so that rounding is at most `margin`.
        norm, root = max(float(a[0]), 1e-150), np.sqrt(np.abs(v))
        left32 = (right * (np.sign(v) * root / norm)).astype(np.float32)
        right32 = (right * (root / norm)).astype(np.float32)
        margin = (len(v) + 8) * float(np.finfo(np.float32).eps)
        i = 0
        while i + gap < n:
            reach = int(np.count_nonzero(a * a[i] > self.threshold))
            if reach <= i + gap:
                return
            if not prefix:
                self.frontier = float(a[i] * a[i + gap])
            for first in range(i, reach, COLUMNS):
                rows, columns = np.arange(i, min(i + ROWS, reach)), np.arange(first, min(first + COLUMNS, reach))
                self.spend(len(rows) * len(columns) * len(v))
                if self.threshold > SINGLE * norm**2:
                    W = self.upper(left32, right32, rows, columns, shares, 0.0)
                    least = self.threshold / norm**2 - margin * a[i] * a[first] / norm**2
                    rows = rows[np.maximum(W.max(axis=1), -W.min(axis=1)) > least]
                    if len(rows) == 0:
                        continue
                W = self.upper(left, right, rows, columns, shares, np.nan)
                hits = np.flatnonzero(np.abs(W) > self.threshold)
                hits = hits[_largest(W.ravel()[hits], self.top)]
                row, column = np.divmod(hits, len(columns))
                self.keep(prefix, features[np.column_stack([rows[row], columns[column]])], W.ravel()[hits])
            i += ROWS

    def upper(self, left, right, rows: np.ndarray, columns: np.ndarray, shares: np.ndarray, no: float) -> np.ndarray:
        """Weights of pairs of rows and columns; `no` where a pair is out of order or, for ANOVA, a square."""
        W = left[rows] @ right[columns[0] : columns[-1] + 1].T
        if columns[0] <= rows[-1]:
            if self.repeats:  # a square has half as many orders as a product
                on = np.flatnonzero((rows >= columns[0]) & (rows <= columns[-1]))
                W[on, rows[on] - columns[0]] /= 1 + shares[rows[on]]
            W[columns < rows[:, None] + self.gap] = no
        return W

    def shares(self, features: np.ndarray, prefix: tuple[int, ...]) -> np.ndarray:
        """1 / (1 + repetitions in the prefix): together these factors make n! / (repetitions of each feature)!."""
        shares = np.ones(len(features))
        for j in set(prefix) if self.repeats else ():
            shares[features == j] = 1 / (1 + prefix.count(j))
        return shares


# -- arguments --------------------------------------------------------------------------------------------------------


def _pandas(function: str):
    try:
        import pandas
    except ImportError:
        raise ImportError(
            f"{function} returns a pandas DataFrame, and pandas is not installed. Install it with: "
            'pip install "polyfm[table]"'
        ) from None
    return pandas


def _target_index(estimator, target) -> int:
    """Which set of parameters belongs to a class."""
    if not hasattr(estimator, "classes_"):
        if target is not None:
            raise ValueError(f"target={target!r} is for classifiers; a regressor has one target: leave it out.")
        return 0
    classes = estimator.classes_
    found = np.flatnonzero(classes == target)
    if len(classes) == 2:
        if target is None or 1 in found:
            return 0
        if 0 in found:
            raise ValueError(
                f"target={target!r}: with two classes the model speaks for {classes.tolist()[1]!r}; the weights for "
                f"{target!r} are the same with the opposite sign. Leave target out."
            )
    if len(found) == 0:
        problem = f"The model has {len(classes)} classes" if target is None else f"target={target!r} is no class"
        raise ValueError(f"{problem}: pass one of {', '.join(map(repr, classes[:10].tolist()))} as target.")
    return int(found[0])


def _names(estimator, feature_names) -> list:
    d = estimator.n_features_in_
    if feature_names is None:
        feature_names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(d)])
    names = list(feature_names)
    if len(names) != d:
        raise ValueError(
            f"feature_names has {len(names)} names, but the model was fitted on {d} features: pass one name for each, "
            "in the order of the columns."
        )
    return names


def _spreads(scale, d: int) -> np.ndarray | None:
    if scale is None:
        return None
    if isinstance(scale, str):
        raise ValueError(
            f"scale={scale!r}: a fitted model does not keep its data. Pass the spreads themselves, for instance "
            "scale=StandardScaler(with_mean=False).fit(X).scale_."
        )
    scale = np.asarray(scale, dtype=np.float64)
    if scale.shape != (d,) or not np.all(np.isfinite(scale)):
        raise ValueError(
            f"scale must be {d} finite numbers, one for each feature, got an array of shape {scale.shape}."
        )
    return scale


def _nonzeros(estimator, x) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of the features of one row that are not 0."""
    d = estimator.n_features_in_
    if hasattr(x, "columns"):
        validate_data(estimator, x, reset=False, skip_check_array=True)  # names and their order
    if sp.issparse(x):
        x = x.toarray()
    row = np.asarray(x, dtype=np.float64)
    if row.shape not in {(d,), (1, d)}:
        raise ValueError(
            f"x has shape {row.shape}, but one row of {d} features was expected, ({d},) or (1, {d}): explain one row "
            "at a time, for instance x=X[:1]."
        )
    row = row.reshape(d)
    if not np.all(np.isfinite(row)):
        raise ValueError(f"x has a value that is not a finite number, in feature {int(np.argmin(np.isfinite(row)))}.")
    present = np.flatnonzero(row)
    return present, row[present]


def monomial(names: list) -> str:
    """A product of features as a text: age^2 x dose."""
    return " x ".join(str(name) if power == 1 else f"{name}^{power}" for name, power in Counter(names).items())
