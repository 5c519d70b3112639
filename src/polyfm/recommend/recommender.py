"""`Recommender`: tables of ratings or of interactions in, the best items out."""

import os
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from polyfm.estimators import FactorizationMachineRegressor
from polyfm.estimators._sklearn import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    with_callbacks,
)
from polyfm.estimators.validation import RandomState
from polyfm.files.atomic import Path
from polyfm.interpretation import explain
from polyfm.recommend.across import terms
from polyfm.recommend.growth import Growing
from polyfm.recommend.log import Log, columns_named, grouped, read_log
from polyfm.recommend.metrics import auc_score, ranking_metrics
from polyfm.recommend.pairs import Options, Pairs, Seen, contexts_of
from polyfm.recommend.ranking import top_n
from polyfm.recommend.ratings import Ratings
from polyfm.recommend.sides import Side, Situation, as_table, check_columns, texts_of
from polyfm.recommend.training import train_pairs
from polyfm.tabular import columns


class Recommender(Growing, CallbackSupportMixin, BaseEstimator):
    """Recommend items to users, from ratings or from what they did.

    Explicit feedback trains an estimator of polyfm on ratings: ids and features of users and items, encoded by
    `TableEncoder`. Implicit feedback, such as clicks or plays, minimises ::

        sum over observed pairs of a (f - 1)^2 + omega * sum over all pairs of f^2 + penalties,

    where f is the inner product of the summed factors of a context's and of an item's features. No negatives are
    sampled. Or, by `loss`, it ranks what was observed above what was not. A context is a user or, where interactions
    have columns of context, a user in a situation.

    Parameters
    ----------
    user, item : str, default="user", "item"
        The columns of ids. Ids are compared as text: 7 and "7" are one.
    feedback : {"explicit", "implicit"}, default="explicit"
        Ratings, or what was done.
    n_components : int, default=32
        Numbers in the vector of a user or an item.
    estimator : estimator, default=None
        Of explicit feedback, another than ``FactorizationMachineRegressor(n_components=n_components)``: any regressor
        of polyfm, or a classifier where ratings have two values.
    loss : {"all-pairs", "bpr", "warp"}, default="all-pairs"
        Of implicit feedback. "bpr" and "warp" sample negatives and take stochastic steps, on one thread; they are for
        those who know them.
    degree : int, default=2
        Of implicit feedback, how many features may act together, some of the context and some of the item. More than 2
        needs features beside ids.
    fields : list of str, default=None
        Columns of numbers, of any table, that name things rather than measure them, such as an hour of the day.
    omega : float, default=0.1
        Of implicit feedback, the weight of a pair, observed or not.
    reg : float, default=0.01
        Of implicit feedback, the penalty. For "all-pairs" it is multiplied by how often a feature occurs, to the power
        `nu`; for "bpr" and "warp" it is that of each step.
    nu : float, default=1.0
        The power of how often a feature occurs in its penalty: 0 penalises all alike.
    learning_rate : float, default=0.05
        Of "bpr" and "warp": AdaGrad's.
    max_iter : int, default=10
        Epochs of implicit feedback.
    checkpoint : str or path-like, default=None
        Of implicit feedback, a file that keeps the state of training, as the estimators' is. Explicit feedback has that
        of `estimator`.
    checkpoint_interval : int, default=10
        Epochs.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState or None, default=None
        Seed of the initial factors, and of sampling.
    verbose : int, default=0
        Print a line for each epoch.

    Attributes
    ----------
    users_, items_ : Side
        Ids and features.
    seen_ : csr_matrix of shape (n_users, n_items)
        What users are not recommended again.
    estimator_ : estimator
        Of explicit feedback, fitted.
    factors_ : tuple of ndarray
        Of implicit feedback, of the features of contexts and of items.
    history_ : ndarray
        The objective of implicit feedback after each epoch.

    Examples
    --------
    >>> import pandas as pd
    >>> from polyfm.recommend import Recommender
    >>> plays = pd.DataFrame({"user": list("aabbccd"), "artist": ["x", "y", "x", "y", "z", "w", "x"]})
    >>> rec = Recommender(item="artist", feedback="implicit", n_components=2, random_state=0).fit(plays)
    >>> rec.recommend(["d"], n=1)[["user", "artist", "rank"]]
      user artist  rank
    0    d      y     1
    """

    _parameter_constraints: dict = {
        "user": [str],
        "item": [str],
        "feedback": [StrOptions({"explicit", "implicit"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "loss": [StrOptions({"all-pairs", "bpr", "warp"})],
        "degree": [Interval(Integral, 2, 10, closed="both")],
        "fields": [list, tuple, None],
        "omega": [Interval(Real, 0, None, closed="left")],
        "reg": [Interval(Real, 0, None, closed="left")],
        "nu": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_interval": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        user: str = "user",
        item: str = "item",
        *,
        feedback: str = "explicit",
        n_components: int = 32,
        estimator: Any = None,
        loss: Any = "all-pairs",
        degree: int = 2,
        fields: Any = None,
        omega: float = 0.1,
        reg: float = 0.01,
        nu: float = 1.0,
        learning_rate: float = 0.05,
        max_iter: int = 10,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.user = user
        self.item = item
        self.feedback = feedback
        self.n_components = n_components
        self.estimator = estimator
        self.loss = loss
        self.degree = degree
        self.fields = fields
        self.omega = omega
        self.reg = reg
        self.nu = nu
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _most_epochs(self) -> int:
        return self.max_iter

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        ratings: Any,
        target: Any = None,
        *,
        weight: Any = None,
        context: Any = None,
        users: Any = None,
        items: Any = None,
    ) -> Self:
        """Learn from a table with a row for each rating or interaction.

        Parameters
        ----------
        ratings : DataFrame
            Of pandas or polars. Of explicit feedback, the last rating of a pair counts; of implicit feedback, the
            weights of a pair add up. A warning says how many there were.
        target : str, default=None
            The column of ratings; explicit feedback needs it.
        weight : str, default=None
            A column of weights, none negative: of ratings, or of interactions. Counts of very different sizes are
            better passed as their logarithms.
        context : list of str, default=None
            Further columns to learn from, such as the hour or the device. Other columns are not used.
        users, items : DataFrame, default=None
            Features, a row for each id. Items without interactions can be recommended by their features.

        Returns
        -------
        self : object
        """
        explicit = self.feedback == "explicit"
        if explicit and target is None:
            raise ValueError("Explicit feedback needs target, the column of ratings; or set feedback='implicit'.")
        if not explicit and target is not None:
            raise ValueError("Implicit feedback has no target: pass weight, or set feedback='explicit'.")
        if explicit and self.checkpoint is not None:
            raise ValueError("checkpoint is of implicit feedback: with ratings, give it to the estimator.")
        self._polars = columns.is_polars(ratings)
        context = columns_named(context, "context", {self.user, self.item, target, weight})
        numeric = not (explicit and self.estimator is not None and is_classifier(self.estimator))
        log = read_log(ratings, "ratings", self.user, self.item, target, weight, context, numeric)
        fields = self._checked_fields(context, users, items)
        self.target_, self.weight_ = target, weight
        self.users_, u = Side.learn(self.user, log.table[self.user], users, "users", fields)
        self.items_, i = Side.learn(self.item, log.table[self.item], items, "items", fields)
        self.situation_ = Situation.learn(log.table, context, fields)
        log, u, i = self._without_duplicates(log, u, i)
        situations = self.situation_.rows(log.table, "ratings")
        self.seen_ = sp.csr_matrix((np.ones(len(u)), (u, i)), shape=(len(self.users_), len(self.items_)))
        self.seen_.data[:] = 1.0
        if explicit:
            self._fit_ratings(u, i, situations, log, None if weight is None else log.weight)
        else:
            codes, first = grouped(u, log.table[context])
            n_items = self.items_.n_ids
            weights = sp.csr_matrix((log.weight, (codes, i)), shape=(len(first), n_items))
            seen = Seen(u[first], situations[first], np.arange(n_items), weights)
            train_pairs(self, Pairs((), seen, self._options()))
        return self

    def _options(self) -> Options:
        return Options(
            self.loss, int(self.degree), int(self.n_components), float(self.omega), float(self.reg), float(self.nu),
            float(self.learning_rate),
        )  # fmt: skip

    def _checked_fields(self, context, users, items) -> list[str]:
        known = {*context, *(str(name) for table in (users, items) if table is not None for name in table.columns)}
        unknown = [name for name in self.fields or () if name not in known]
        if unknown:
            raise ValueError(f"fields={unknown}: neither users nor items nor context has such a column.")
        return list(self.fields or ())

    def _without_duplicates(self, log: Log, u, i) -> tuple[Log, np.ndarray, np.ndarray]:
        codes, _ = grouped(u, log.table[self.situation_.columns])
        pairs = codes * len(self.items_) + i
        _, last = np.unique(pairs[::-1], return_index=True)
        last = np.sort(len(pairs) - 1 - last)
        if len(last) == len(pairs):
            return log, u, i
        explicit = self.feedback == "explicit"
        how = "the last rating of each counts" if explicit else "their weights were added up"
        warnings.warn(f"{len(pairs) - len(last)} rows repeat a pair: {how}.", UserWarning, stacklevel=4)
        weight = log.weight[last]
        if not explicit:
            summed = np.bincount(np.unique(pairs, return_inverse=True)[1], weights=log.weight)
            weight = summed[np.searchsorted(np.sort(pairs[last]), pairs[last])]
        return Log(log.table.iloc[last], log.target[last], weight), u[last], i[last]

    def _fit_ratings(self, u, i, situations, log: Log, weight) -> None:
        model = self.estimator
        if model is None:
            model = FactorizationMachineRegressor(
                n_components=self.n_components, n_jobs=self.n_jobs, random_state=self.random_state, verbose=self.verbose
            )
        model = clone(model)
        if hasattr(self, "_skl_callbacks"):  # the estimator has the epochs to report
            model.set_callbacks(*self._skl_callbacks)
        self._engine = Ratings.train(model, self._joint(u, situations, i), log.target, weight)

    @property
    def estimator_(self) -> Any:
        return self._of_engine(Ratings).estimator

    @property
    def factors_(self) -> Any:
        return self._of_engine(Pairs).factors

    def _of_engine(self, kind: type) -> Any:
        if not isinstance(getattr(self, "_engine", None), kind):
            raise AttributeError("This Recommender has no such attribute: it is not fitted, or to other feedback.")
        return self._engine

    # -- features and vectors -----------------------------------------------------------------------------------------

    def _context_vectors(self, u, situations) -> np.ndarray:
        return self._engine.vectors(0, contexts_of(self.users_, u, situations))

    def _item_vectors(self, positions=slice(None)) -> np.ndarray:
        return self._engine.vectors(1, self.items_.X[positions])

    # -- use ----------------------------------------------------------------------------------------------------------

    def recommend(
        self, users: Any=None, n: int = 10, *, context: Any=None, items: Any=None, filter: Callable | None = None,
        exclude_seen: bool = True,
    ) -> Any:  # fmt: skip
        """The best items for each user.

        Parameters
        ----------
        users : list of ids, default=None
            By default, all that are known.
        n : int, default=10
            How many for each user.
        context : DataFrame, default=None
            In place of `users`: a row for each request, with the column of users and those of context. Without it, the
            situation counts as unknown.
        items : list of ids, default=None
            The only ones to choose from.
        filter : callable, default=None
            Given the table of items, of pandas, with their features, it says which to choose from: a boolean for each
            row.
        exclude_seen : bool, default=True
            Whether items that a user has rated or used are left out.

        Returns
        -------
        table : DataFrame
            Columns of users, of context where it was given, and of items, as they are called in training, ``score`` and
            ``rank``.
        """
        check_is_fitted(self, "users_")
        asked, who, situations = self._requests(users, context)
        candidates = self._candidates(items, filter)
        exclude = self.seen_[who][:, candidates] if exclude_seen else None
        vectors = self._context_vectors(who, situations)
        positions, scores = top_n(vectors, self._item_vectors(candidates), n, exclude=exclude, n_jobs=self.n_jobs)
        there = positions >= 0
        if not there[:, 0].all():
            empty = asked[self.user][int(np.argmin(there[:, 0]))]
            warnings.warn(f"Nothing is left to recommend to {self.user}={empty!r}.", UserWarning, stacklevel=2)
        row, rank = np.nonzero(there)
        return self._table(
            {
                **{name: [values[r] for r in row] for name, values in asked.items()},
                self.item: [self.items_.values[i] for i in candidates[positions[there]]],
                "score": scores[there],
                "rank": rank + 1,
            }
        )

    def _requests(self, users, context) -> tuple[dict[str, list], np.ndarray, sp.csr_matrix]:
        """What was asked: the columns of the answer, positions of users, and features of situations."""
        if context is None:
            users = self.users_.values if users is None else users
            ids = [users] if isinstance(users, str) or not hasattr(users, "__iter__") else list(users)
            if not ids:
                raise ValueError("users is empty: name at least one.")
            return {self.user: ids}, self.users_.find(ids), self.situation_.unknown(len(ids))
        if users is not None:
            raise ValueError("users and context both say whom to recommend to: pass one of them.")
        table = as_table(context, "context")
        check_columns(table, "context", [self.user, *self.situation_.columns])
        more = [str(name) for name in table.columns if name not in {self.user, *self.situation_.columns}]
        if more:
            warnings.warn(
                f"context has {more}, which the model was not trained with: ignored. fit(..., context=[...]) names "
                "what to learn from.", UserWarning, stacklevel=3,
            )  # fmt: skip
        asked = {name: table[name].tolist() for name in [self.user, *self.situation_.columns]}
        return asked, self.users_.find(asked[self.user]), self.situation_.rows(table, "context")

    def _candidates(self, items, filter) -> np.ndarray:
        chosen = np.arange(len(self.items_)) if items is None else np.unique(self.items_.find(items))
        if filter is not None:
            mask = np.asarray(filter(self.items_.table))
            if mask.dtype != bool or mask.shape != (len(self.items_),):
                raise ValueError(f"filter must give a boolean for each of the {len(self.items_)} items.")
            chosen = chosen[mask[chosen]]
        if not len(chosen):
            raise ValueError("No item is left to choose from: items or filter leave out all of them.")
        return chosen

    def predict(self, pairs: Any) -> np.ndarray:
        """Scores of given pairs: of explicit feedback, ratings.

        Parameters
        ----------
        pairs : DataFrame
            With the columns of users and items, and those of context that training had.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
        """
        check_is_fitted(self, "users_")
        table = as_table(pairs, "pairs")
        check_columns(table, "pairs", [self.user, self.item])
        u, i = self.users_.find(table[self.user]), self.items_.find(table[self.item])
        situations = self.situation_.rows(table, "pairs")
        if self.feedback == "explicit" and not is_classifier(self.estimator_):
            return self.estimator_.predict(self._joint(u, situations, i))
        return np.einsum("nk,nk->n", self._context_vectors(u, situations), self._item_vectors(i))

    def _table(self, named: dict) -> Any:
        if self._polars:
            import polars

            return polars.DataFrame(named)
        return columns.pandas_for_tables().DataFrame(named)

    def similar_items(self, item: Any, n: int = 10) -> Any:
        """The items whose vectors point the same way, by the cosine; a table of ids and scores.

        Parameters
        ----------
        item : id
            The item to compare with.
        n : int, default=10
            How many.
        """
        check_is_fitted(self, "users_")
        return self._similar(self.items_, self._item_vectors(), item, n)

    def similar_users(self, user: Any, n: int = 10) -> Any:
        """The users whose vectors point the same way, by the cosine; a table of ids and scores.

        Parameters
        ----------
        user : id
            The user to compare with.
        n : int, default=10
            How many.
        """
        check_is_fitted(self, "users_")
        everyone = np.arange(len(self.users_))
        nowhere = sp.csr_matrix((len(everyone), self.situation_.size))
        return self._similar(self.users_, self._context_vectors(everyone, nowhere), user, n)

    def _similar(self, side: Side, vectors: np.ndarray, one, n: int) -> Any:
        at = side.find([one])
        vectors = vectors if self.feedback == "implicit" else vectors[:, 2:]  # without biases
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(norms > 0, norms, 1.0)
        itself = sp.csr_matrix(([1.0], ([0], at)), shape=(1, len(side)))
        positions, scores = top_n(unit[at], unit, n, exclude=itself)
        there = positions[0] >= 0
        return self._table({side.column: [side.values[i] for i in positions[0][there]], "score": scores[0][there]})

    def explain(self, user: Any, item: Any, *, context: Any = None) -> Any:
        """A score, taken apart into products of features that add up to it; a table, the largest first.

        Parameters
        ----------
        user, item : id
            Whose score of what.
        context : DataFrame, default=None
            A table of one row, as `recommend` takes it.
        """
        check_is_fitted(self, "users_")
        u, i = self.users_.find([user]), self.items_.find([item])
        situations = self.situation_.unknown(1)
        if context is not None:
            situations = self.situation_.rows(as_table(context, "context"), "context")
            if situations.shape[0] != 1:
                raise ValueError(f"context has {situations.shape[0]} rows, and one score is explained: pass one.")
        names = self.users_.names + self.situation_.names, self.items_.names
        if self.feedback == "explicit":
            table = explain(self.estimator_, self._joint(u, situations, i), feature_names=names[0] + names[1])
            return self._table({name: table[name].to_list() for name in table.columns})
        rows = (contexts_of(self.users_, u, situations), self.items_.X[i])
        found = terms(rows, self.factors_, self.degree, self.n_components, self._engine.is_biased)
        named = {
            self.user: [" x ".join(names[0][j] for j in mine) for mine, _, _ in found],
            self.item: [" x ".join(names[1][j] for j in other) for _, other, _ in found],
        }
        return self._table({**named, "contribution": [value for _, _, value in found]})

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, held_out: Any, k: int = 10) -> Any:
        """How well held-out interactions are ranked among all items that a user has not seen, popularity beside it.

        Parameters
        ----------
        held_out : DataFrame
            Every row is relevant to its user, or to its context where training had columns of that. Users that are
            not known are left out, with a warning; so are unknown items.
        k : int, default=10
            How many items of each ranking are judged.

        Returns
        -------
        table : pandas.DataFrame
            ``precision``, ``recall``, ``ndcg``, ``map``, ``coverage``, ``n_contexts`` and ``auc`` of the model and of
            popularity.
        """
        check_is_fitted(self, "users_")
        table = as_table(held_out, "held_out")
        check_columns(table, "held_out", [self.user, self.item])
        (u, users), (i, items) = (texts_of(table[name], "held_out") for name in (self.user, self.item))
        u, i = self.users_.positions_of(users)[u], self.items_.positions_of(items)[i]
        known = (u >= 0) & (i >= 0)
        if not known.all():
            warnings.warn(f"{np.sum(~known)} rows are of unknown users or items: left out.", UserWarning, stacklevel=2)
        if not known.any():
            raise ValueError("held_out has no row of a known user and a known item: there is nothing to judge.")
        table, u, i = table[known], u[known], i[known]
        situations = self.situation_.rows(table, "held_out")
        codes, first = grouped(u, table[self.situation_.columns])
        relevant = sp.csr_matrix((np.ones(len(u)), (codes, i)), shape=(len(first), len(self.items_)))
        who, situations = u[first], situations[first]
        seen = self.seen_[who]
        popular = np.asarray(self.seen_.sum(axis=0)).reshape(-1, 1)
        found = {}
        for name, U, V in (
            ("model", self._context_vectors(who, situations), self._item_vectors()),
            ("popularity", np.ones((len(who), 1)), popular),
        ):
            positions, _ = top_n(U, V, k, exclude=seen, n_jobs=self.n_jobs)
            found[name] = {**ranking_metrics(positions, relevant), "auc": auc_score(U, V, relevant, seen)}
        return columns.pandas_for_tables().DataFrame(found).T
