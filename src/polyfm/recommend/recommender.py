"""`Recommender`: tables of ratings or of interactions in, the best items out."""

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from polyfm.estimators import FactorizationMachineRegressor
from polyfm.estimators._sklearn import HasMethods, Interval, StrOptions, fit_context
from polyfm.estimators.validation import threads_of
from polyfm.interpretation import explain
from polyfm.recommend.all_pairs import AllPairs, Rows, descend, fold_in, penalty
from polyfm.recommend.metrics import auc_score, ranking_metrics
from polyfm.recommend.ranking import top_n
from polyfm.recommend.sides import Side, as_table, check_columns, texts_of
from polyfm.recommend.two_towers import candidate_tower, context_tower
from polyfm.tabular import columns


class Recommender(BaseEstimator):
    """Recommend items to users, from ratings or from what they did.

    Explicit feedback trains an estimator of polyfm on ratings: ids and features of users and items, encoded by
    `TableEncoder`. Implicit feedback, such as clicks or plays, minimises

        sum over observed pairs of a (f - 1)^2 + omega * sum over all pairs of f^2 + penalties,

    where f is the inner product of the summed factors of a user's and of an item's features. No negatives are sampled.

    Parameters
    ----------
    user, item : str, default="user", "item"
        The columns of ids. Ids are compared as text: 7 and "7" are one.
    feedback : {"explicit", "implicit"}, default="explicit"
    n_components : int, default=32
        Numbers in the vector of a user or an item.
    estimator : estimator, default=None
        Of explicit feedback, another than ``FactorizationMachineRegressor(n_components=n_components)``: any regressor
        of polyfm.
    omega : float, default=0.2
        Of implicit feedback, the weight of a pair, observed or not.
    reg : float, default=0.01
        Of implicit feedback, the penalty; it is multiplied by how often a feature occurs, to the power `nu`.
    nu : float, default=1.0
    max_iter : int, default=10
        Epochs of implicit feedback.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    users_, items_ : Side
        Ids and features.
    seen_ : csr_matrix of shape (n_users, n_items)
        What users are not recommended again.
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
        "omega": [Interval(Real, 0, None, closed="left")],
        "reg": [Interval(Real, 0, None, closed="neither")],
        "nu": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self, user="user", item="item", *, feedback="explicit", n_components=32, estimator=None, omega=0.2, reg=0.01,
        nu=1.0, max_iter=10, n_jobs=None, random_state=None, verbose=0,
    ):  # fmt: skip
        self.user = user
        self.item = item
        self.feedback = feedback
        self.n_components = n_components
        self.estimator = estimator
        self.omega = omega
        self.reg = reg
        self.nu = nu
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, ratings, target=None, *, weight=None, users=None, items=None):
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
        self._polars = columns.is_polars(ratings)
        table = as_table(ratings, "ratings")
        named = [name for name in (target, weight) if name is not None]
        check_columns(table, "ratings", [self.user, self.item, *named])
        y = self._numbers(table, target) if explicit else np.ones(len(table))
        a = np.ones(len(table)) if weight is None else self._numbers(table, weight)
        if a.min() < 0 or not a.max() > 0:
            raise ValueError(f"ratings: the weights in {weight!r} must not be negative, and some must be positive.")
        self.users_, u = Side.learn(self.user, table[self.user], users, "users")
        self.items_, i = Side.learn(self.item, table[self.item], items, "items")
        u, i, y, a = self._without_duplicates(u, i, y, a)
        shape = (len(self.users_), len(self.items_))
        self.seen_ = sp.csr_matrix((np.ones(len(u)), (u, i)), shape=shape)
        if explicit:
            self._fit_ratings(u, i, y, None if weight is None else a)
        else:
            self._fit_all_pairs(sp.csr_matrix((a, (u, i)), shape=shape))
        return self

    def _numbers(self, table, name: str) -> np.ndarray:
        found = columns.numbers(table[name])
        if np.isnan(found).any():
            raise ValueError(f"ratings: column {name!r} has gaps. Drop those rows.")
        return found

    def _without_duplicates(self, u, i, y, a):
        pairs = u * len(self.items_) + i
        _, last = np.unique(pairs[::-1], return_index=True)
        last = np.sort(len(pairs) - 1 - last)
        if len(last) < len(pairs):
            explicit = self.feedback == "explicit"
            how = "the last rating of each counts" if explicit else "their weights were added up"
            warnings.warn(f"{len(pairs) - len(last)} rows repeat a pair: {how}.", UserWarning, stacklevel=4)
            if explicit:
                return u[last], i[last], y[last], a[last]
            summed = np.bincount(np.unique(pairs, return_inverse=True)[1], weights=a)
            a = summed[np.searchsorted(np.sort(pairs[last]), pairs[last])]
            return u[last], i[last], y[last], a
        return u, i, y, a

    def _fit_ratings(self, u, i, y, weight) -> None:
        model = self.estimator
        if model is None:
            model = FactorizationMachineRegressor(
                n_components=self.n_components, n_jobs=self.n_jobs, random_state=self.random_state, verbose=self.verbose
            )
        X = sp.hstack([self.users_.X[u], self.items_.X[i]], format="csr")
        self.estimator_ = clone(model).fit(X, y, sample_weight=weight)

    def _fit_all_pairs(self, seen: sp.csr_matrix) -> None:
        users, items = self.users_, self.items_
        n, m = users.n_trained, items.n_trained
        problem = AllPairs(
            Rows(users.X[:n], n), Rows(items.X[:m], m), seen[:n, :m].tocsr(), self.omega, self.reg, self.nu
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        threads = threads_of(self.n_jobs)
        factors, history = descend(problem, self.n_components, self.max_iter, 0.0, seed, threads, self.verbose)
        self.factors_, self.history_ = factors, np.array(history)
        self._own = tuple(np.zeros((len(side), self.n_components)) for side in (users, items))  # of what is folded in

    # -- vectors ------------------------------------------------------------------------------------------------------

    def _user_vectors(self, positions: np.ndarray) -> np.ndarray:
        X = self.users_.X[positions]
        if self.feedback == "implicit":
            return X @ self.factors_[0] + self._own[0][positions]
        fitted = self.estimator_._fitted
        beside = sp.csr_matrix((X.shape[0], self.items_.X.shape[1]))
        return context_tower(fitted, fitted.targets[0], sp.hstack([X, beside], format="csr"))

    def _item_vectors(self) -> np.ndarray:
        X = self.items_.X
        if self.feedback == "implicit":
            return X @ self.factors_[1] + self._own[1]
        fitted = self.estimator_._fitted
        beside = sp.csr_matrix((X.shape[0], self.users_.X.shape[1]))
        return candidate_tower(fitted, fitted.targets[0], sp.hstack([beside, X], format="csr"))

    # -- use ----------------------------------------------------------------------------------------------------------

    def recommend(
        self, users, n: int = 10, *, items=None, filter: Callable | None = None, exclude_seen: bool = True
    ) -> Any:
        """The best items for each user.

        Parameters
        ----------
        users : list of ids
        n : int, default=10
        items : list of ids, default=None
            The only ones to choose from.
        filter : callable, default=None
            Given the table of items, with their features, it says which to choose from: a boolean for each row.
        exclude_seen : bool, default=True
            Whether items that a user has rated or used are left out.

        Returns
        -------
        table : DataFrame
            Columns of users and items, as they are called in training, ``score`` and ``rank``.
        """
        check_is_fitted(self, "users_")
        users = [users] if isinstance(users, str) or not hasattr(users, "__iter__") else list(users)
        if not users:
            raise ValueError("users is empty: name at least one.")
        who = self.users_.find(users)
        candidates = self._candidates(items, filter)
        exclude = self.seen_[who][:, candidates] if exclude_seen else None
        vectors = self._item_vectors()[candidates]
        positions, scores = top_n(self._user_vectors(who), vectors, n, exclude=exclude, n_jobs=self.n_jobs)
        there = positions >= 0
        if not there[:, 0].all():
            empty = users[int(np.argmin(there[:, 0]))]
            warnings.warn(f"Nothing is left to recommend to {self.user}={empty!r}.", UserWarning, stacklevel=2)
        row, rank = np.nonzero(there)
        return self._table(
            {
                self.user: [users[r] for r in row],
                self.item: [self.items_.values[i] for i in candidates[positions[there]]],
                "score": scores[there],
                "rank": rank + 1,
            }
        )

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

    def _table(self, named: dict) -> Any:
        if self._polars:
            import polars

            return polars.DataFrame(named)
        return columns.pandas_for_tables().DataFrame(named)

    def similar_items(self, item, n: int = 10) -> Any:
        """The items whose vectors point the same way, by the cosine; a table of ids and scores."""
        check_is_fitted(self, "users_")
        return self._similar(self.items_, self._item_vectors(), item, n)

    def similar_users(self, user, n: int = 10) -> Any:
        """The users whose vectors point the same way, by the cosine; a table of ids and scores."""
        check_is_fitted(self, "users_")
        return self._similar(self.users_, self._user_vectors(np.arange(len(self.users_))), user, n)

    def _similar(self, side: Side, vectors: np.ndarray, one, n: int) -> Any:
        at = side.find([one])
        vectors = vectors if self.feedback == "implicit" else vectors[:, 2:]  # without biases
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(norms > 0, norms, 1.0)
        itself = sp.csr_matrix(([1.0], ([0], at)), shape=(1, len(side)))
        positions, scores = top_n(unit[at], unit, n, exclude=itself)
        there = positions[0] >= 0
        return self._table({side.column: [side.values[i] for i in positions[0][there]], "score": scores[0][there]})

    def explain(self, user, item) -> Any:
        """A score, taken apart into products of features that add up to it; a table, the largest first."""
        check_is_fitted(self, "users_")
        u, i = self.users_.find([user]), self.items_.find([item])
        if self.feedback == "explicit":
            names = self.users_.names + self.items_.names
            x = sp.hstack([self.users_.X[u], self.items_.X[i]], format="csr")
            return explain(self.estimator_, x, feature_names=names)
        parts = []
        for side, at, T, own in zip((self.users_, self.items_), (u, i), self.factors_, self._own, strict=True):
            x = side.X[at]
            names = [side.names[j] for j in x.indices] + [f"{side.column}={side.texts[at[0]]}"]
            vectors = np.vstack([x.data[:, None] * T[x.indices], own[at]])
            there = np.any(vectors != 0, axis=1)
            parts.append(([name for name, ok in zip(names, there, strict=True) if ok], vectors[there]))
        products = parts[0][1] @ parts[1][1].T
        order = np.argsort(-np.abs(products), axis=None, kind="stable")
        a, b = np.unravel_index(order, products.shape)
        named = {self.user: [parts[0][0][j] for j in a], self.item: [parts[1][0][j] for j in b]}
        return self._table({**named, "contribution": products[a, b]})

    # -- new users and items ------------------------------------------------------------------------------------------

    def add_users(self, interactions, users=None, *, weight=None):
        """Take in new users by what they did, without training again: one solve each (implicit feedback).

        Parameters
        ----------
        interactions : DataFrame
            As `fit` takes it, with users that are not known and items that are.
        users : DataFrame, default=None
            Their features, where training had features of users.
        weight : str, default=None

        Returns
        -------
        self : object
        """
        return self._add(0, interactions, users, weight)

    def add_items(self, interactions, items=None, *, weight=None):
        """Take in new items by who used them; as `add_users`."""
        return self._add(1, interactions, items, weight)

    def _add(self, which: int, interactions, features, weight):
        check_is_fitted(self, "users_")
        if self.feedback != "implicit":
            raise ValueError("Only implicit feedback folds ids in so far; fit again with the new ratings.")
        sides = (self.users_, self.items_)
        side, other = sides[which], sides[1 - which]
        table = as_table(interactions, "interactions")
        check_columns(table, "interactions", [side.column, other.column, *([weight] if weight else [])])
        codes, texts = texts_of(table[side.column], "interactions")
        if features is None:
            if side.table.shape[1] > 1:
                raise ValueError(f"Training had features of each {side.column}: pass those of the new ones, too.")
            features = table[[side.column]].iloc[np.unique(codes, return_index=True)[1]]
        a = np.ones(len(table)) if weight is None else self._numbers(table, weight)
        if a.min() < 0:
            raise ValueError(f"interactions: the weights in {weight!r} must not be negative.")
        with_whom = other.find(table[other.column])
        given = as_table(features, "features")
        check_columns(given, "features", [side.column])
        found = texts_of(given[side.column], "features")[1]
        if lacking := [text for text in texts if text not in set(found)]:
            raise ValueError(f"{side.column}={lacking[0]!r} has interactions, but no row of features.")
        Z = self._item_vectors() if which == 0 else self._user_vectors(np.arange(len(self.users_)))
        gram = self.omega * Z[: other.n_trained].T @ Z[: other.n_trained]
        added = side.add(features, "features")
        at = np.array([side.position[text] for text in texts])[codes] - added[0]
        pairs = sp.csr_matrix((a, (at, with_whom)), shape=(len(added), len(other)))
        own = np.zeros((len(added), self.n_components))
        for row in range(len(added)):
            mine = pairs[row]
            if mine.nnz:
                pen = penalty(
                    sp.csr_matrix([[1.0]]), np.array([mine.nnz]), other.n_trained, self.omega, self.reg, self.nu
                )
                base = (side.X[added[row]] @ self.factors_[which]).ravel()
                own[row] = fold_in(Z[mine.indices], mine.data, gram, base, pen[0])
        self._own = tuple(np.vstack([o, own]) if s == which else o for s, o in enumerate(self._own))
        pairs.data[:] = 1.0
        stack = (sp.vstack, sp.hstack)[which]
        self.seen_ = stack([self.seen_, pairs if which == 0 else pairs.T], format="csr")
        return self

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, held_out, k: int = 10) -> Any:
        """How well held-out interactions are ranked among all items that a user has not seen, popularity beside it.

        Parameters
        ----------
        held_out : DataFrame
            Every row is relevant. Users that are not known are left out, with a warning; so are unknown items.
        k : int, default=10

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
        u = np.array([self.users_.position.get(text, -1) for text in users])[u]
        i = np.array([self.items_.position.get(text, -1) for text in items])[i]
        known = (u >= 0) & (i >= 0)
        if not known.all():
            warnings.warn(f"{np.sum(~known)} rows are of unknown users or items: left out.", UserWarning, stacklevel=2)
        relevant = sp.csr_matrix((np.ones(known.sum()), (u[known], i[known])), shape=self.seen_.shape)
        who = np.flatnonzero(np.diff(relevant.indptr))
        if not len(who):
            raise ValueError("held_out has no row of a known user and a known item: there is nothing to judge.")
        relevant, seen = relevant[who], self.seen_[who]
        popular = np.asarray(self.seen_.sum(axis=0)).reshape(-1, 1)
        found = {}
        for name, U, V in (
            ("model", self._user_vectors(who), self._item_vectors()),
            ("popularity", np.ones((len(who), 1)), popular),
        ):
            positions, _ = top_n(U, V, k, exclude=seen, n_jobs=self.n_jobs)
            found[name] = {**ranking_metrics(positions, relevant), "auc": auc_score(U, V, relevant, seen)}
        return columns.pandas_for_tables().DataFrame(found).T
