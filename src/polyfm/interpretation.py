"""Reading a fitted model: its strongest interactions, and one prediction taken apart.

A fitted model is a polynomial, f(x) = sum over monomials of weight * x_j1 ... x_jn. For each degree n, whatever the
method, the kernel and `fit_lower`, the weights are those of one kernel expansion, with multiplicity 1 for the ANOVA
kernel (distinct features) and n!/(repetitions) for the homogeneous one:

    weight(j1 .. jn) = multiplicity * sum_s lam_s P[j1, s] ... P[jn, s]

Letters: d features, k bases, P (d x k) the bases *by feature*, lam (k), a (d) norms of features.
"""

from collections import Counter
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import get_config

from polyfm.files.tables import required
from polyfm.reading.certainty import Certainty
from polyfm.reading.polynomial import Polynomial
from polyfm.reading.strongest import BUDGET, strongest, warn_of_missing
from polyfm.reading.subject import Subject
from polyfm.reading.together import Together
from polyfm.tabular.columns import is_polars


def interactions(
    estimator: Any,
    *,
    degree: int | None = None,
    top: int = 20,
    feature_names: Any = None,
    groups: Any = None,
    X: Any = None,
    impossible: bool = False,
    scale: Any = None,
    target: Any = None,
    budget: float | None = BUDGET,
) -> Any:
    """The strongest products of features, by name.

    The model is a polynomial,

        f(x) = sum over monomials  weight * x_j1 x_j2 ... x_jm,

    and `weight` is the number that multiplies the monomial. For the ANOVA kernel the features of a monomial are
    distinct and the weight is W_(j1..jm) = sum_s lambda_s p_(j1 s) ... p_(jm s). For the homogeneous kernel features
    may repeat and the weight is W times the number of distinct orders of j1 .. jm: 2 W_ij for x_i x_j, W_ii for x_i^2.
    Dummy features (``fit_lower="augment"``) count towards the lower degrees that they stand for.

    Products that cannot occur are left out. A model has weights for those, too, such as sex_F x sex_M or a user with
    another user, which no row will ever have. Fields, of which a row has one feature, are known from `groups`, or from
    the encoders of a pipeline (`OneHotEncoder`, `TableEncoder`, `KBinsDiscretizer`), or else from the `groups` that the
    estimator itself was fitted with. With `X`, products that no row of it has are left out, too. A fitted model alone
    keeps no data: without any of these, nothing is known to be impossible and nothing is left out.

    The result is exact, though the d^m weights are never formed: products whose weight cannot reach the list, by
    Hoelder's inequality |W_(j1..jm)| <= |q_j1| ... |q_jm| with |q_j|^m = sum_s |lambda_s| |p_js|^m, are left out many
    at a time. Where all features are about equally strong, there are many of them and m >= 3, this may take longer
    than anyone would wait; `budget` then ends the search, with a warning that says how much a missing product can
    weigh at most and how many rows of the table are certain all the same.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm, or a fitted `Pipeline` that ends in one.
    degree : int, default=None
        Degree of the products; 1 for linear weights. None means the model's highest degree.
    top : int, default=20
        How many to list.
    feature_names : sequence of str of length n_features, default=None
        By default, of a pipeline, the names of `get_feature_names_out`; else those seen in `fit`, or x0, x1, ...
    groups : array-like of shape (n_features,), default=None
        The field of each feature; None is a feature of no field. Products of two features of one field are left out;
        powers of one feature (polynomial networks) are not.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_columns), default=None
        Data, as `predict` would take them. Products that are 0 in all of its rows are left out. It says more than the
        estimator's own `groups`, which then do not count.
    impossible : bool, default=False
        Whether to list products that cannot occur, too.
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
    table : DataFrame
        Of pandas; of polars where `X` is, or after ``sklearn.set_config(transform_output="polars")``. Columns
        `feature_1` .. `feature_m` and `weight`, the largest magnitude first. Of a Bayesian machine, `std` has the
        standard deviation of each weight (without dummy features).

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
    subject = Subject.of(estimator, feature_names)
    polynomial = Polynomial.of(subject.model, target)
    d, names = polynomial.n_features, subject.features.names
    degree = polynomial.check_degree(degree)
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 1:
        raise ValueError(f"top must be an integer >= 1, got {top!r}.")
    if budget is not None and not (isinstance(budget, Real) and budget > 0):
        raise ValueError(f"budget must be a number > 0 or None for no limit, got {budget!r}.")
    terms = polynomial.terms(degree, scale=_spreads(scale, d))
    together = _together(subject, groups, X)
    features, weights, bound = strongest(terms, int(top), budget, None if impossible else together)
    if bound is not None:
        warn_of_missing(degree, weights, bound, f"budget={budget:g} multiply-adds", "Raise budget (None: no limit).")
    columns = {f"feature_{t + 1}": [names[j] for j in features[:, t]] for t in range(degree)}
    table, certainty = pd.DataFrame({**columns, "weight": weights}), Certainty(subject.model, target)
    if certainty.is_known:
        spreads = _spreads(scale, d)
        table["std"] = certainty.of(terms, features) * (1.0 if spreads is None else np.prod(spreads[features], axis=1))
    return _as_given(table, X)


def explain(
    estimator: Any, x: Any, *, feature_names: Any = None, target: Any = None, max_degree_terms: int = 100
) -> Any:
    """One prediction, taken apart into terms that add up to it.

    f(x) = sum over monomials of weight * x_j1 ... x_jn, where only the features that are not 0 in x matter. The sum of
    the column `contribution` is `predict` of a regressor and `decision_function` of a classifier, up to rounding.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm, or a fitted `Pipeline` that ends in one.
    x : {array-like, sparse matrix, Series, DataFrame, dict, str} of one row
        The row to explain, as `predict` would take it: of a pipeline, as it is before the first step. One axis or two.
        A dict has the values of a table's columns, by name; a str is a text, for pipelines that start with texts.
    feature_names : sequence of str of length n_features, default=None
        By default, of a pipeline, the names of `get_feature_names_out`; else those seen in `fit`, or x0, x1, ...
    target : object, default=None
        The class to explain, where a classifier has more than two. With two classes, contributions speak for
        ``classes_[1]``.
    max_degree_terms : int, default=100
        Most interactions to list for each degree. Where there are more, these are the ones that contribute most, and
        one more row holds the exact sum of the others.

    Returns
    -------
    table : DataFrame
        Of pandas; of polars where `x` is, or after ``sklearn.set_config(transform_output="polars")``.
        By degree, and the largest contributions first. Columns `term` (a text), `degree`, `value` (of the product of
        features), `weight` and `contribution`, the product of the two. Degree 0 is the intercept. Of a pipeline on a
        table, `input` has what stood in the columns that the features were made from. Of a Bayesian machine, `std` has
        the standard deviation of each contribution, and contributions add up to the mean of f.

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
    subject = Subject.of(estimator, feature_names)
    polynomial = Polynomial.of(subject.model, target)
    if not isinstance(max_degree_terms, Integral) or isinstance(max_degree_terms, bool) or max_degree_terms < 0:
        raise ValueError(f"max_degree_terms must be an integer >= 0, got {max_degree_terms!r}.")
    row = subject.row(x)
    present, values = row.present, row.values
    names = subject.features.names[present]
    constant = polynomial.constant()
    certainty = Certainty(subject.model, target)
    rows = [("intercept", "", 0, 1.0, constant, constant)]
    stds = [certainty.constant() if certainty.is_known else np.nan]
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
            term = monomial([names[j] for j in js])
            rows.append((term, subject.inputs(row, present[js]), degree, np.prod(values[js]), weight, contribution))
        if certainty.is_known:
            stds.extend(certainty.of(terms, present[features]) * np.abs(np.prod(values[features], axis=1)))
        if len(features) < count:
            stds.append(np.nan)
            others = f"all {count - len(features):,} {'other ' if listed else ''}interactions of degree {degree}"
            rows.append((others, "", degree, np.nan, np.nan, here.total() - np.sum(contributions)))
    table = pd.DataFrame(rows, columns=["term", "input", "degree", "value", "weight", "contribution"])
    if certainty.is_known:
        table["std"] = stds
    return _as_given(table if row.inputs else table.drop(columns="input"), x)


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


def _as_given(table, given):
    """The table in the kind of what was given, or that scikit-learn is configured for."""
    if not is_polars(given) and get_config()["transform_output"] != "polars":
        return table
    polars = required("polars", "table", "transform_output='polars'")
    return polars.DataFrame({name: column.tolist() for name, column in table.items()})


def _together(subject: Subject, groups, X) -> Together | None:
    """Which features can occur together, from whatever knows it."""
    d = subject.model.n_features_in_
    encoded = None if X is None else subject.encoded(X)
    if groups is None:
        groups = subject.fields
    if groups is None and X is None:
        groups = None if isinstance(subject.model.groups, str) else subject.model.groups
    return Together.of(None if groups is None else _fields(groups, d), encoded)


def _fields(groups, d: int) -> np.ndarray:
    """Fields as numbers: those of labels, and one of its own for each feature of no field."""
    labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(labels) != d:
        raise ValueError(
            f"groups has {len(labels)} labels, but the model was fitted on {d} features: pass the field of each, with "
            "None for a feature of no field."
        )
    number = {label: j for j, label in reversed(list(enumerate(labels)))}
    return np.array([j if label is None else number[label] for j, label in enumerate(labels)], dtype=int)


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


def monomial(names: list) -> str:
    """A product of features as a text: age^2 x dose."""
    return " x ".join(str(name) if power == 1 else f"{name}^{power}" for name, power in Counter(names).items())
