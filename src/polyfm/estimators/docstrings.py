"""The docstrings of the estimators, whose parameters and attributes are the same but for a few words."""

import inspect
from typing import TypeVar

from polyfm.losses import losses_for
from polyfm.solvers import SOLVERS, names_of

T = TypeVar("T", bound=type)

_SUMMARY = {
    "FactorizationMachine": """Factorization machine {task} of any degree.

    It predicts ::

        f(x) = <w, x> + w0 + sum_s lambda_s A^m(p_s, x)

    with the ANOVA kernel A^m: products of m *distinct* features, weighted by a low-rank tensor. It shines on sparse,
    high-dimensional and one-hot data, where it gives a weight even to pairs that never occurred together.""",
    "PolynomialNetwork": """Polynomial network {task} of any degree.

    It predicts ::

        f(x) = <w, x> + w0 + sum_s lambda_s <p_s, x>^m

    with the homogeneous polynomial kernel H^m: products of m features, repeated ones included. It shines on dense,
    continuous features, where powers of a feature matter.""",
}

_BODY = """{summary}

    Parameters
    ----------
    degree : int >= 2, default=2
        The degree m of the highest interactions.
    n_components : int or "auto", default=10
        Number of bases: the rank of the interaction tensor. With ``fit_lower="explicit"``, for each degree. "auto", for
        degree 2: as many as the best model of any rank has, which a duality gap proves (`gap_tol`, `max_components`).
        No seed matters then; `solver` is a part of it, and an epoch is a round of new bases.
    loss : {losses}, default="{loss}"
        A name, or any object with a number `curvature` (a bound on the second derivative) and methods
        `value(self, y, f)` and `derivative(self, y, f)`. The objective holds the *sum* of the losses.
    alpha : "auto", float, array of shape (n_features,) or dict, default="auto"
        Penalty alpha/2 |w|^2 on the linear weights. "auto" takes the one with which the linear model alone is best on
        held-out rows; `alpha_` says which it was. An array has one for each feature; a dict has one for each field
        in `groups` or, without these, for each feature by its name (or number, where they have no names).
    beta : "auto", float, array of shape (n_features,) or dict, default="auto"
        Penalty on the bases: beta sum_s |lambda_s| |p_s|^2 (direct) or beta/2 sum_t |U^t|^2 (lifted). "auto" follows a
        path from the beta that leaves no interactions to weaker ones, and takes the best on held-out rows; `beta_` says
        which it was. By feature or field as for `alpha`, which is the same as scaling the columns; dummy features take
        the mean of the others.
    groups : array-like of shape (n_features,), default=None
        The field of each feature, such as "user" or "movie", for penalties by field. `TableEncoder.feature_fields_`
        has them.
{own_parameter}    method : {{"direct", "lifted"}}, default="{method}"
        Learn the bases p_s themselves, or m matrices U^1 .. U^m of which the interaction tensor is the symmetrised
        product{method_note}.
    fit_lower : {{"explicit", "augment"}} or None, default="{fit_lower}"
        Interactions of lower degree: bases of their own for each degree from m - 1 down to 2, dummy features that
        let the same bases serve all degrees (section 8 of the paper), or none.
    fit_linear : bool, default={fit_linear}
        Whether to fit w.
    fit_intercept : bool, default=True
        Whether to fit w0, which is never penalised.
    init_lambdas : {{"ones", "random_signs"}} or array of shape (n_bases,), default="ones"
        The weights lambda of the bases (direct only): kept as they are unless `fit_lambdas`.
    fit_lambdas : bool, default=False
        Fit lambda too (direct only), alternating with the bases. It helps only where m is even (Lemma 4).
    init_scale : float, default={init_scale}
        Size of the random initial interactions: their root mean square over the training data, in units of that of
        the residuals of the best constant. It does not depend on the units of X and y.
    solver : {{"auto", {solvers}}}, default="auto"
{solver_list}

        "auto" chooses by the model and the data; `solver_` says which it was. On large tables of one-hot fields it is
        "sgd", in as many epochs as are best on held-out rows, whatever `tol` says. None needs a learning rate, and the
        objective never increases, except with {rising}.
    batch_size : int or "auto", default="auto"
        Rows in a stochastic step; "auto" is one, the fastest and the best.
    shares : int, default=1
        Shares of the rows that take stochastic steps at the same time, each on parameters of its own; they are joined
        up to 32 times an epoch. Each takes memory for one more set of parameters. Two with `n_jobs=2` are faster where
        rows are many; of fewer than 512 rows there is one share. Another number of shares gives another model;
        `n_jobs` changes none.
    max_iter : int, default={max_iter}
        Most epochs, that is, passes over all parameters.
    tol : float, default={tol}
        Stop when an epoch lowers the objective by less than this fraction of it.
    gap_tol : float, default=0.01
        With ``n_components="auto"``, stop when the objective is proved to be within this fraction of the smallest one.
    max_components : int, default=100
        With ``n_components="auto"``, most bases.
    early_stopping : bool, default=False
        Hold out `validation_fraction` of the rows, stop when the loss on them has not fallen for `n_iter_no_change`
        epochs, and keep the parameters that were best there.
    validation_fraction : float, default=0.1
        With `early_stopping`, the fraction of the rows to hold out.
    n_iter_no_change : int, default=5
        With `early_stopping`, how many epochs without a lower loss end training.
    checkpoint : str or path, default=None
        A file to which the state of training is written every `checkpoint_interval` epochs. If it exists when `fit`
        starts, training goes on from it; when training is complete, it is deleted.
    checkpoint_interval : int, default=10
        Epochs between two writings of the checkpoint.
    warm_start : bool, default=False
        Start from the parameters of the previous `fit`. On the same data, training goes on as if it had not stopped
        (bit for bit).
    n_jobs : int, default=None
        Threads for training and prediction. None is 1, -1 is all processors. Results do not depend on it. Descent uses
        threads on features that never occur together, such as one-hot fields; on text it has work for two, and on dense
        data for one. Stochastic steps follow one another: a second thread helps only with the objective.
    random_state : int, RandomState or None, default=None
        Seed of the initial bases.
    verbose : int, default=0
        Print a line for each epoch.

    Attributes
    ----------
    components_ : ndarray
        Bases P of shape (n_bases, n_features) or, when lifted, U of shape (degree, n_bases, n_features). With
        ``fit_lower="augment"`` the dummy features follow as further columns. Bases of all degrees are stacked,
        highest degree first.{classes_note}
    degrees_ : ndarray of shape (n_bases,)
        The degree of each basis.
    lambdas_ : ndarray of shape (n_bases,)
        The weight of each basis.
    alpha_, beta_ : float or ndarray
        The penalties that were used, as given or as chosen. With ``beta="auto"`` and bases of several degrees, `beta_`
        has one number for each degree, highest first.
    coef_ : ndarray of shape {coef_shape}
        The linear weights w.
    intercept_ : {intercept}
        w0.
    objective_ : float
        The final objective: sum_i weight_i l(y_i, f(x_i)) plus the penalties above.
    history_ : ndarray of shape (n_iter_,)
        The objective after each epoch.
    n_iter_ : int
        Number of epochs.
    solver_ : str
        The solver that was used.
    n_components_ : int
        With ``n_components="auto"``, the number of bases.
    duality_gap_ : float
        With ``n_components="auto"``, the fraction by which the objective could be lowered at most, by any model.
    validation_losses_ : ndarray of shape (n_iter_,)
        The mean loss on the held-out rows after each epoch, with early stopping; summed over classes where there
        are several.
    n_features_in_ : int
        Number of features seen in `fit`.
{more_attributes}
    References
    ----------
    M. Blondel, M. Ishihata, A. Fujino, N. Ueda: Polynomial Networks and Factorization Machines: New Insights and
    Efficient Training Algorithms. ICML 2016.

    Examples
    --------
{example}"""

CLASS_WEIGHT = """    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the samples. "balanced" makes all classes weigh the same.
"""
CLIP = """    clip : bool or "auto", default="auto"
        Keep predictions within the range of the targets that were seen in `fit` (`target_range_`). "auto" keeps those
        of networks and of degrees above 2, with the squared loss and penalties that the data chose, within a quarter
        of that range beyond it; others stay as they are.
"""

_EXAMPLES = {
    "Regressor": """    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import {name}
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = {name}(random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.5)
    True
    """,
    "Classifier": """    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import {name}
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = {name}(random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.97)
    True
    """,
}


_SEARCH = """{name} with the penalty beta chosen by cross-validation.

    For each fold, models are fitted along a path of betas from strong to weak, each starting where the one before
    ended, which takes a fraction of the time of as many separate fits. The best beta is refitted on all data.

    Parameters
    ----------
    betas : array-like, default=None
        The betas to try. None means `n_betas` values, evenly spaced on a log scale, from the beta that leaves no
        interactions down over 3.5 decades, and farther where the weakest of them is the best.
    n_betas : int, default=8
        Number of betas, where `betas` is None.
    degrees, ranks : array-like, default=None
        Degrees and numbers of bases to try as well, in place of `degree` and `n_components`.
    cv : int, splitter or iterable, default=None
        As everywhere in scikit-learn; None is 5 folds.
    scoring : str or callable, default=None
        None is R2, or for classes the logarithmic loss (negative), or accuracy where there are no probabilities.
    n_jobs : int, default=None
        Folds that are fitted at the same time, in threads.
    degree, n_components, loss, alpha, groups, {own}, method, fit_lower, fit_linear, fit_intercept, \
init_lambdas, fit_lambdas, init_scale, solver, batch_size, shares, max_iter, tol, gap_tol, max_components, \
random_state, verbose
        As in `{name}`.

    Attributes
    ----------
    beta_ : float
        The chosen beta.
    betas_ : ndarray of shape (n_betas,)
        The path, from strong to weak.
    cv_scores_ : ndarray of shape (n_betas, n_folds)
        The score of each beta on each fold.
    best_score_ : float
        The best mean score.
    degree_, n_components_ : int
        The chosen degree and number of bases.
    search_scores_ : dict
        For each (degree, rank) that was tried, the betas and their scores.

    The others are those of `{name}`, from the fit on all data.

    Examples
    --------
    >>> from sklearn.datasets import {load}
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import {name}CV
    >>> X, y = {load}(return_X_y=True)
    >>> model = {name}CV(n_components=3, n_betas=4, cv=3, random_state=0).fit(scale(X), y)
    >>> model.cv_scores_.shape == (len(model.betas_), 3)
    True
    """


def documented_search(cls: T) -> T:
    """Write the docstring of an estimator with a search."""
    name = cls.__name__.removesuffix("CV")
    load = "load_breast_cancer" if name.endswith("Classifier") else "load_diabetes"
    cls.__doc__ = _SEARCH.format(name=name, load=load, own="class_weight" if name.endswith("Classifier") else "clip")
    return cls


def _quoted(names: list[str]) -> str:
    *most, last = (f'"{name}"' for name in names)
    return f"{', '.join(most)} or {last}" if most else last


def documented(cls: T) -> T:
    """Write the class's docstring from its name and the defaults in its signature."""
    defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    classifier = cls.__name__.endswith("Classifier")
    family, task = cls.__name__.removesuffix("Classifier").removesuffix("Regressor"), "regression"
    if classifier:
        task = "classification"
    known = ", ".join(f'"{name}"' for name in losses_for(task))
    losses = f"{{{known}}} or loss object"
    cls.__doc__ = _BODY.format(
        **{
            key: defaults[key] for key in ("loss", "method", "fit_lower", "fit_linear", "init_scale", "max_iter", "tol")
        },
        summary=_SUMMARY[family].format(task=task),
        own_parameter=CLASS_WEIGHT if classifier else CLIP,
        losses=losses,
        method_note=""
        if family == "FactorizationMachine"
        else f" (direct ones are trained by {_quoted(names_of('needs_multilinear', False))})",
        solvers=", ".join(f'"{name}"' for name in SOLVERS),
        solver_list="\n".join(
            f'        - "{name}": {cls.summary}; an epoch is {cls.epoch}.' for name, cls in SOLVERS.items()
        ),
        rising=_quoted(names_of("monotone", False)),
        classes_note=" The arrays\n        have a leading axis of length 1 (two classes) or n_classes."
        if classifier
        else "",
        coef_shape="(1 or n_classes, n_features)" if classifier else "(n_features,)",
        intercept="ndarray of shape (1 or n_classes,)" if classifier else "float",
        more_attributes="    classes_ : ndarray of shape (n_classes,)\n        The class labels.\n"
        if classifier
        else "    target_range_ : ndarray of shape (2,)\n        The smallest and the largest target seen.\n",
        example=_EXAMPLES["Classifier" if classifier else "Regressor"].format(name=cls.__name__),
    )
    return cls
