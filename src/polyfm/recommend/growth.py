"""New users and items in a fitted `Recommender`: by their features alone, by a small solve, or by further training."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from polyfm.core.threads import one_thread_of_blas
from polyfm.recommend.log import Log, read_log
from polyfm.recommend.pairs import Pairs, contexts_of, id_column, with_pairs
from polyfm.recommend.ratings import Ratings
from polyfm.recommend.sides import Side, Situation, as_table, check_columns, texts_of, with_gaps
from polyfm.recommend.training import train_pairs
from polyfm.tabular import columns


class Growing:
    """The methods of a `Recommender` that take in what it has not seen."""

    user: str
    item: str
    feedback: str
    users_: Side
    items_: Side
    situation_: Situation
    seen_: sp.csr_matrix
    target_: str | None
    weight_: str | None
    estimator_: Any
    _engine: Any

    def add_users(self, interactions: Any, users: Any = None, *, weight: Any = None) -> Self:
        """Take in new users without training again: by what they did, in one small solve each, or by features alone.

        Parameters
        ----------
        interactions : DataFrame
            As `fit` takes it, with users that are not known and items that are. A table without a column of items has
            features of users, who are then known by these alone.
        users : DataFrame, default=None
            Their features, where training had features of users; without them, they count as unknown.
        weight : str, default=None
            A column of weights. By default the one of `fit`.

        Returns
        -------
        self : object
        """
        return self._add(0, interactions, users, weight)

    def add_items(self, interactions: Any, items: Any = None, *, weight: Any = None) -> Self:
        """Take in new items, by who used them or by their features alone; as `add_users`.

        Parameters
        ----------
        interactions : DataFrame
            As `fit` takes it, with items that are not known and users that are; or a table of features of items.
        items : DataFrame, default=None
            Their features, where training had features of items; without them, they count as unknown.
        weight : str, default=None
            A column of weights. By default the one of `fit`.

        Returns
        -------
        self : object
        """
        return self._add(1, interactions, items, weight)

    def _add(self, which: int, interactions, features, weight):
        check_is_fitted(self, "users_")
        side, other = (self.users_, self.items_)[:: 1 if which == 0 else -1]
        table = as_table(interactions, "interactions")
        check_columns(table, "interactions", [side.column])
        if other.column not in table.columns:
            if features is not None:
                raise ValueError(
                    f"interactions has no column {other.column!r}; it has {list(map(str, table.columns))}."
                )
            side.add(table, f"{side.column}s")
            self._widen_seen()
            return self
        log = self._read(interactions, weight)
        situations = self.situation_.rows(log.table, "interactions")
        if isinstance(self._engine, Ratings):
            self._engine.check_affine()
        other.find(log.table[other.column].unique())
        texts = texts_of(log.table[side.column], "interactions")[1]
        at = side.positions_of(texts)
        trained = (at >= 0) & side.has_id[at]
        if trained.any():
            raise ValueError(
                f"interactions: {side.column}={texts[int(np.argmax(trained))]!r} is known already. Leave it out, or "
                "learn more about it with partial_fit."
            )
        self._take_in(which, log.table[side.column], features)
        u, i = self.users_.find(log.table[self.user]), self.items_.find(log.table[self.item])
        fresh = self._give_ids(which, (u, i)[which])
        if isinstance(self._engine, Pairs):
            self._engine.seen.add(u, situations, i, log.weight)
        self._fold_in(which, fresh, u, situations, i, log)
        self._note_seen(u, i)
        return self

    def partial_fit(self, ratings: Any, *, weight: Any = None, users: Any = None, items: Any = None) -> Self:
        """Learn from further interactions, with users and items that may be new.

        New ids start from where `add_users` and `add_items` would put them. Then explicit feedback goes once over the
        rows, where the estimator can (``solver="sgd"``); implicit feedback does one epoch over all that it has seen,
        where weights of pairs that it has seen before add up.

        Parameters
        ----------
        ratings : DataFrame
            As `fit` takes it.
        weight : str, default=None
            A column of weights. By default the one of `fit`.
        users, items : DataFrame, default=None
            Features of the new ones, where training had features.

        Returns
        -------
        self : object
        """
        check_is_fitted(self, "users_")
        log = self._read(ratings, weight)
        situations = self.situation_.rows(log.table, "interactions")
        explicit = isinstance(self._engine, Ratings)
        if explicit and not hasattr(self.estimator_, "partial_fit"):
            raise ValueError(
                f"partial_fit needs an estimator that learns from a stream, such as FactorizationMachineRegressor("
                f"solver='sgd'); this one has solver={self.estimator_.solver!r}. add_users and add_items take in new "
                "ids."
            )
        if explicit:
            self._engine.check_affine()
        for which, (side, features) in enumerate(((self.users_, users), (self.items_, items))):
            self._take_in(which, log.table[side.column], features)
        u, i = self.users_.find(log.table[self.user]), self.items_.find(log.table[self.item])
        fresh = [self._give_ids(which, at) for which, at in enumerate((u, i))]
        if not explicit:
            self._engine.seen.add(u, situations, i, log.weight)
        for which in (0, 1):
            self._fold_in(which, fresh[which], u, situations, i, log)
        self._note_seen(u, i)
        if explicit:
            weights = None if self.weight_ is None and weight is None else log.weight
            self.estimator_.partial_fit(self._joint(u, situations, i), log.target, sample_weight=weights)
        else:
            train_pairs(self, self._engine, epochs=1)
        return self

    def _read(self, interactions, weight) -> Log:
        weight = self.weight_ if weight is None else weight
        if self.situation_.encoder is not None:
            interactions = with_gaps(
                as_table(interactions, "interactions"), self.situation_.encoder, "the interactions"
            )
        numeric = self.feedback == "implicit" or not is_classifier(self.estimator_)
        return read_log(
            interactions, "interactions", self.user, self.item, self.target_, weight, self.situation_.columns, numeric
        )

    def _take_in(self, which: int, ids, features) -> None:
        """Take in ids that are not known, with their features."""
        side = (self.users_, self.items_)[which]
        codes, texts = texts_of(ids, "interactions")
        new = side.positions_of(texts) < 0
        if not new.any():
            return
        pandas = columns.pandas_for_tables()
        if features is None:
            first = np.unique(codes, return_index=True)[1]
            features = pandas.DataFrame({side.column: ids.iloc[first]})[new]
            features = with_gaps(features, side.encoder, f"the new ids of {side.column}")
        given = as_table(features, "features")
        check_columns(given, "features", [side.column])
        rows, found = texts_of(given[side.column], "features")
        if lacking := [text for text, is_new in zip(texts, new, strict=True) if is_new and text not in set(found)]:
            raise ValueError(f"{side.column}={lacking[0]!r} has interactions, but no row of features.")
        side.add(given[side.positions_of(found)[rows] < 0], "features")

    def _give_ids(self, which: int, positions: np.ndarray) -> np.ndarray:
        """Features of their own, of no effect yet, for those that have none: their positions."""
        side = (self.users_, self.items_)[which]
        positions = np.unique(positions)
        fresh = positions[~side.has_id[positions]]
        if len(fresh):
            at = side.n_ids
            side.give_ids(fresh)
            if isinstance(self._engine, Ratings):
                self._engine.grow(at + self._first_feature(which), len(fresh))
            else:
                self._engine.grow(which, at, len(fresh))
        return fresh

    def _first_feature(self, which: int) -> int:
        return self.users_.X.shape[1] + self.situation_.size if which else 0

    def _fold_in(self, which: int, fresh: np.ndarray, u, situations, i, log: Log) -> None:
        """Parameters of ids whose own are 0, by their interactions."""
        if not len(fresh):
            return
        if isinstance(self._engine, Pairs):
            with one_thread_of_blas():  # its products are small: threads would wait
                self._engine.fold_in(which, fresh, self.users_, self.items_)
            return
        side, at = (self.users_, u) if which == 0 else (self.items_, i)
        mine = np.isin(at, fresh)
        features = self._first_feature(which) + np.array([id_column(side, position) for position in fresh])
        y = log.target[mine]
        if is_classifier(self.estimator_):
            y = np.where(y == self.estimator_.classes_[1], 1.0, -1.0)
        X = self._joint(u[mine], situations[mine], i[mine])
        self._engine.fold_in(features, np.searchsorted(fresh, at[mine]), X, y, log.weight[mine])

    def _note_seen(self, u, i) -> None:
        shape = (len(self.users_), len(self.items_))
        self.seen_ = with_pairs(self.seen_, u, i, np.ones(len(u)), shape)
        self.seen_.data[:] = 1.0

    def _widen_seen(self) -> None:
        self.seen_.resize(len(self.users_), len(self.items_))

    def _joint(self, u, situations, i) -> sp.csr_matrix:
        """Rows of contexts and items, for an estimator."""
        return sp.hstack([contexts_of(self.users_, u, situations), self.items_.X[i]], format="csr")
