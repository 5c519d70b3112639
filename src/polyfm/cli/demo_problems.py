"""The problems of the first look: two generated, two real that come with scikit-learn, and who is tried on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyfm.estimators import FactorizationMachineRegressor

N_PEOPLE, N_FILMS, N_RATINGS, NOISE = 250, 150, 7_500, 0.5
LINEAR, TREES, MACHINE = "linear model", "boosted trees", "factorization machine"


@dataclass(frozen=True)
class Problem:
    name: str
    what: str
    X: Any  # for linear models and factorization machines
    table: np.ndarray  # the same for trees
    y: np.ndarray
    categories: list[int] | None = None  # columns of the table
    scale: bool = False

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to learn from, and rows held out."""
        return train_test_split(np.arange(len(self.y)), test_size=0.25, random_state=0)

    def contestants(self) -> dict[str, tuple[Any, Any]]:
        """Of each name, what is fitted and to which data: all as their authors have set them."""
        trees = HistGradientBoostingRegressor(categorical_features=self.categories, random_state=0)
        return {
            LINEAR: (self._scaled(RidgeCV(np.logspace(-2, 4, 13))), self.X),
            TREES: (trees, self.table),
            MACHINE: (self.machine(), self.X),
        }

    def machine(self):
        return self._scaled(FactorizationMachineRegressor(random_state=0))

    def _scaled(self, model):
        return make_pipeline(StandardScaler(), model) if self.scale else model


def score(problem: Problem, model, X) -> float:
    """R2 on rows that were held out."""
    train, test = problem.split()
    model.fit(X[train], problem.y[train])
    return float(r2_score(problem.y[test], model.predict(X[test])))


# -- the problems -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tastes:
    """Ratings of films by people. Everybody and every film is liked more or less in general; the rest is taste: both
    have a place on a circle, of which nothing is told, and near ones suit each other."""

    person: np.ndarray  # of each rating
    film: np.ndarray
    rating: np.ndarray
    truth: np.ndarray  # (people, films), without the noise; both in the order of their places

    @property
    def problem(self) -> Problem:
        return Problem(
            "ratings",
            f"{N_RATINGS:,} of {N_FILMS} films by {N_PEOPLE} people, generated",
            self.one_hot(self.person, self.film),
            np.column_stack((self.person, self.film)).astype(float),
            self.rating,
            categories=[0, 1],
        )

    def one_hot(self, person: np.ndarray, film: np.ndarray):
        """One feature for each person, and one for each film: all that a model is told."""
        columns = np.column_stack((person, N_PEOPLE + film)).ravel()
        starts = np.arange(0, len(columns) + 1, 2)
        return sp.csr_array((np.ones(len(columns)), columns, starts), shape=(len(person), N_PEOPLE + N_FILMS))

    def predicted(self, predict: Callable, *, table: bool) -> np.ndarray:
        """The ratings of all films by all people, as a fitted model sees them."""
        person, film = (places.ravel() for places in np.indices(self.truth.shape))
        X = np.column_stack((person, film)).astype(float) if table else self.one_hot(person, film)
        return predict(X).reshape(self.truth.shape)


def tastes() -> Tastes:
    rng = np.random.RandomState(0)
    of_people, of_films = (np.sort(rng.uniform(0, 2 * np.pi, size)) for size in (N_PEOPLE, N_FILMS))
    in_general = 0.4 * rng.standard_normal((N_PEOPLE, 1)) + 0.4 * rng.standard_normal(N_FILMS)
    truth = 3 + in_general + 1.2 * np.cos(of_people[:, None] - of_films)
    person, film = np.divmod(rng.choice(truth.size, N_RATINGS, replace=False), N_FILMS)
    rating = truth[person, film] + NOISE * rng.standard_normal(N_RATINGS)
    return Tastes(person, film, rating, truth)


def problems() -> list[Problem]:
    diabetes, pixels = load_diabetes(), load_digits()
    curves, y = make_friedman1(2_000, n_features=10, noise=1.0, random_state=0)
    scans, odd = pixels.data / 16, (pixels.target % 2).astype(float)
    n = len(diabetes.target)
    return [
        tastes().problem,
        Problem("diabetes", f"{n} patients, 10 measurements, real", *_both(diabetes.data), diabetes.target, scale=True),
        Problem("odd digits", f"{len(odd):,} scans of digits, 64 pixels, real", *_both(scans), odd, scale=True),
        Problem("curves", f"{len(y):,} rows of Friedman's formula, generated", *_both(curves), y, scale=True),
    ]


def _both(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X, X
