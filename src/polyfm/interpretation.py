"""Reading a fitted model: its strongest interactions, and one prediction taken apart.

A fitted model is a polynomial, f(x) = sum over monomials of weight * x_j1 ... x_jn. For each degree n, whatever the
method, the kernel and `fit_lower`, the weights are those of one kernel expansion, with multiplicity 1 for the ANOVA
kernel (distinct features) and n!/(repetitions) for the homogeneous one:

    weight(j1 .. jn) = multiplicity * sum_s lam_s P[j1, s] ... P[jn, s]

Letters: d features, k bases, P (d x k) the bases *by feature*, lam (k), a (d) norms of features.
"""

from collections import Counter
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from polyfm.core.sparse import checked_sparse
from polyfm.reading.polynomial import Polynomial
from polyfm.reading.strongest import BUDGET, strongest, warn_of_missing


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
    polynomial = Polynomial.of(estimator, target)
    d = polynomial.n_features
    names = _names(estimator, feature_names)
    degree = polynomial.check_degree(degree)
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 1:
        raise ValueError(f"top must be an integer >= 1, got {top!r}.")
    if budget is not None and not (isinstance(budget, Real) and budget > 0):
        raise ValueError(f"budget must be a number > 0 or None for no limit, got {budget!r}.")
    terms = polynomial.terms(degree, scale=_spreads(scale, d))
    features, weights, bound = strongest(terms, int(top), budget)
    if bound is not None:
        warn_of_missing(degree, weights, bound, f"budget={budget:g} multiply-adds", "Raise budget (None: no limit).")
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
    polynomial = Polynomial.of(estimator, target)
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
        features, contributions, bound = strongest(here, listed, BUDGET)
        if bound is not None:
            warn_of_missing(degree, contributions, bound, f"{BUDGET:g} multiply-adds", "The sum is exact all the same.")
        weights = terms.weights(features)
        for js, weight, contribution in zip(features, weights, contributions, strict=True):
            rows.append((monomial([names[j] for j in present[js]]), degree, np.prod(values[js]), weight, contribution))
        if len(features) < count:
            others = f"all {count - len(features):,} {'other ' if listed else ''}interactions of degree {degree}"
            rows.append((others, degree, np.nan, np.nan, here.total() - np.sum(contributions)))
    return pd.DataFrame(rows, columns=["term", "degree", "value", "weight", "contribution"])


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
    x = checked_sparse(x, "x")
    if np.iscomplexobj(x.data if sp.issparse(x) else x):
        raise ValueError("x holds complex numbers; features are real ones.")
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
