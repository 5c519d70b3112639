"""The docstrings of Bayesian estimators, whose parameters and attributes are the same but for a few words."""

import inspect
from typing import TypeVar

from polyfm.estimators.docstrings import CLASS_WEIGHT

T = TypeVar("T", bound=type)

_MACHINE = """Bayesian factorization machine {task}, of any degree.

    It supposes ::

        f(x) = <w, x> + w0 + sum_s A^m(p_s, x),   {likelihood}

    with the ANOVA kernel A^m: products of m *distinct* features."""
_NETWORK = """Bayesian polynomial network {task}, of any degree.

    It supposes ::

        f(x) = <w, x> + w0 + sum_s prod_t <u^t_s, x>,   {likelihood}

    with products of m sums, and so of m features, repeated ones included: for dense, continuous features, which should
    be scaled. Draws are taken from the posterior (Gibbs sampling), and the model is their mean."""
_BODY = """{summary}
    What is learned is a distribution of all parameters.
    There are no penalties to choose: each field of features and each basis has a prior, whose mean and precision are
    learned as well, from a start that follows from the data. Predictions say how sure they are.

    Parameters
    ----------
    degree : int >= 2, default=2
        The degree m of the highest interactions.
    n_components : int, default=10
        Number of bases, for each degree. Those that the data do not ask for die out; `effective_rank_` says how many
        are left.
{inference}    groups : "auto", array-like of shape (n_features,) or None, default="auto"
        The field of each feature, such as "user" or "movie": one label each, as `TableEncoder.feature_fields_` has
        them. "auto" finds one-hot fields (features that never occur together), with those of fewer than 10 features
        as one; None takes all features as one field.
{draws}{own}{method}    fit_lower : {{"explicit", "augment"}} or None, default="{fit_lower}"
        Interactions of lower degree: bases of their own for each degree from m - 1 down to 2, dummy features that
        let the same bases serve all degrees, or none.
    fit_linear : bool, default={fit_linear}
        Whether to fit w.
{intercept}{start}    checkpoint : str or path, default=None
        A file to which the state of training is written every `checkpoint_interval` epochs. If it exists when `fit`
        starts, training goes on from it; when training is complete, it is deleted.
    checkpoint_interval : int, default=10
        Epochs between two writings of the checkpoint.
    warm_start : bool, default=False
        Go on where the previous `fit` ended, bit for bit, if it was of the same data with the same parameters (but
        for {free}); start anew else.
    n_jobs : int, default=None
        Threads for training and prediction. None is 1, -1 is all processors. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of {seed}.
    verbose : int, default=0
        Print a line for each epoch.

    Attributes
    ----------
{attributes}
    Examples
    --------
{example}"""

_INFERENCE = """    inference : {"variational", "gibbs"}, default="variational"
        "variational" finds the best posterior of independent Gaussians, and is compact. "gibbs" goes on from there and
        draws from the posterior itself, which is often more accurate; the model is the mean of the draws.
"""
_METHOD = """    method : {"direct", "lifted"}, default="direct"
        Learn the bases p_s themselves, or m matrices U^1 .. U^m of which the interaction tensor is the symmetrised
        product: then with ``inference="gibbs"`` alone.
"""
_START = """    max_iter : int, default={max_iter}
        Most epochs of variational inference, that is, passes over all means and variances. With ``method="lifted"``,
        iterations of the sampler before the draws that may be kept.
    tol : float, default={tol}
        Stop when 8 epochs raise the evidence lower bound by less than this, for each row of data.
"""
_START_OF_NETWORK = """    max_iter : int, default={max_iter}
        Iterations of the sampler before the draws that may be kept.
"""
_INTERCEPT = """    fit_intercept : bool, default=True
        Whether to fit w0, whose prior is flat.
"""
_DRAWS = """    n_samples : int, default=50
        Draws that are kept, with ``inference="gibbs"``.
    thinning : int, default=2
        Iterations of the sampler for each draw that is kept, after 10 that are not.
"""
_DRAWS_OF_NETWORK = """    n_samples : int, default=50
        Draws that are kept.
    thinning : int, default=2
        Iterations of the sampler for each draw that is kept.
"""
_ATTRIBUTES = """    components_ : ndarray of shape {components}
        Bases: {bases}
    degrees_ : ndarray of shape (n_bases,)
        The degree of each basis, highest first.
    lambdas_ : ndarray of shape {lambdas}
        The weight of each basis: 1, or 1 / n_samples.
    coef_ : ndarray of shape {coef}
        The linear weights w: the means of their posterior.
    intercept_ : {intercept}
        w0.
{own}    groups_ : ndarray of shape (n_features,)
        The field of each feature, as given or as found.
    effective_rank_ : float
        How many bases of equal size the interactions are worth.
    history_ : dict of ndarrays
        After each epoch: {history}
    objective_ : float
        Minus the evidence lower bound or, of Gibbs sampling, minus the last log-likelihood.
    n_iter_ : int
        Number of epochs, iterations of the sampler included.
    solver_ : str
        The inference that was used.
    n_features_in_ : int
        Number of features seen in `fit`.
"""
_CLIP = """    clip : bool, default=False
        Keep predictions within the range of the targets that were seen in `fit` (`target_range_`).
"""
_CLIP_OF_NETWORK = """    clip : bool or "auto", default="auto"
        Keep predictions within the range of the targets that were seen in `fit` (`target_range_`). "auto" keeps them
        within a quarter of that range beyond it: products of features go far astray outside of what was seen.
"""
_NOISE = """    noise_ : float
        The standard deviation of the noise.
    target_range_ : ndarray of shape (2,)
        The smallest and the largest target seen.
"""
_EXAMPLE = """    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import {name}
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = scale(X)
    >>> model = {name}(random_state=0).fit(X[:300], y[:300])
    >>> low, high = model.predict_interval(X[300:], coverage=0.9)
    >>> covered = ((low < y[300:]) & (y[300:] < high)).mean()
    >>> bool(0.8 < covered < 0.98)
    True
    """


_CLASSES_EXAMPLE = """    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import {name}
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = {name}(n_components=2, random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """
_REGRESSION = {
    "task": "regression", "likelihood": "y ~ N(f(x), noise^2)", "own": _CLIP, "own_attributes": _NOISE,
    "components": "(n_bases, n_features)", "lambdas": "(n_bases,)", "coef": "(n_features,)", "intercept": "float",
    "example": _EXAMPLE,
}  # fmt: skip
_CLASSIFICATION = {
    "task": "classification", "likelihood": "P(y = 1) = Phi(f(x))", "own": CLASS_WEIGHT,
    "own_attributes": "    classes_ : ndarray of shape (n_classes,)\n        The class labels.\n",
    "components": "(1 or n_classes, n_bases, n_features)", "lambdas": "(1 or n_classes, n_bases)",
    "coef": "(1 or n_classes, n_features)", "intercept": "ndarray of shape (1 or n_classes,)",
    "example": _CLASSES_EXAMPLE,
}  # fmt: skip
_ORDINAL = _CLASSIFICATION | {
    "task": "for classes in an order, such as ratings",
    "likelihood": "class c where cut_c < f(x) + N(0, 1) <= cut_(c+1)",
    "own": "",
    "own_attributes": """    classes_ : ndarray of shape (n_classes,)
        The class labels, in their order.
    cut_points_ : ndarray of shape (n_classes - 1,)
        Where one class ends and the next begins.
""",
    "components": "(1, n_bases, n_features)", "lambdas": "(1, n_bases)", "coef": "(1, n_features)",
    "intercept": "ndarray of shape (1,)",
    "example": """    >>> import numpy as np
    >>> from polyfm import {name}
    >>> X = np.random.RandomState(0).standard_normal((300, 4))
    >>> stars = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-1, 0, 1]) + 1
    >>> model = {name}(n_components=2, random_state=0).fit(X, stars)
    >>> bool(model.score(X, stars) > 0.8)
    True
    >>> model.predict_proba(X).shape
    (300, 4)
    """,
}  # fmt: skip


_OF_MACHINES = {
    "bases": """the means of their posterior or, with ``inference="gibbs"``, those of all draws one after the other, in
        single precision. Lifted ones have one more axis, of the m matrices, before that of the bases.""",
    "history": """``"elbo"``, the evidence lower bound, ``"noise"`` and ``"effective_rank"``. Of Gibbs sampling,
        ``"elbo"`` is that of the start, and ``"log_likelihood"`` that of the data given each draw.""",
}
_OF_NETWORKS = {
    "bases": "the matrices U^1 .. U^m of all draws one after the other, in single precision.",
    "history": """``"log_likelihood"``, that of the data given the draw, ``"noise"`` and
        ``"effective_rank"``.""",
}


def documented_bayes(cls: T) -> T:
    """Give a Bayesian estimator its docstring (a class decorator)."""
    defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    network = "inference" not in defaults
    words = _CLASSIFICATION if "class_weight" in defaults else _REGRESSION if "clip" in defaults else _ORDINAL
    shapes = {name: words[name] for name in ("components", "lambdas", "coef", "intercept")}
    if network:
        shapes["components"] = shapes["components"].replace("n_bases", "degree, n_bases")
    own = _OF_NETWORKS if network else _OF_MACHINES
    start = (_START_OF_NETWORK if network else _START).format(**defaults)
    cls.__doc__ = _BODY.format(
        summary=(_NETWORK if network else _MACHINE).format(task=words["task"], likelihood=words["likelihood"]),
        inference="" if network else _INFERENCE,
        draws=_DRAWS_OF_NETWORK if network else _DRAWS,
        own=_CLIP_OF_NETWORK if network and words is _REGRESSION else words["own"],
        method="" if network else _METHOD,
        fit_lower=defaults["fit_lower"],
        fit_linear=defaults["fit_linear"],
        intercept=_INTERCEPT if "fit_intercept" in defaults else "",
        start=start,
        free="`n_samples`" if network else "`max_iter`, `tol` and `n_samples`",
        seed="the initial bases and of the draws",
        attributes=_ATTRIBUTES.format(**shapes, **own, own=words["own_attributes"]),
        example=words["example"].format(name=cls.__name__),
    )
    return cls
