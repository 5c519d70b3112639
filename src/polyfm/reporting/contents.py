"""What a report says of data and predictions: numbers and words, before they become a page."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d

from polyfm.estimators.summary import brief
from polyfm.interpretation import explain, interactions
from polyfm.reading.polynomial import Polynomial
from polyfm.reading.subject import Subject
from polyfm.reporting.scores import of_classes, of_numbers, unknown_labels
from polyfm.tabular.columns import as_pandas, is_polars

MOST_COLUMNS = 40
MOST_CLASSES = 4  # whose interactions are listed
TOP_OF_CLASS = 8
MOST_CONFUSED = 8  # classes of a table of errors
N_WORST, N_TERMS = 10, 5
N_BINS = 10
BUDGET = 1e11  # multiply-adds of a search for interactions: some seconds
VALUES = 3  # of a category that are named


class Column(NamedTuple):
    name: str
    kind: str
    distinct: int
    missing: int
    values: str


class Data(NamedTuple):
    """The rows, as they came."""

    X: Any
    y: np.ndarray | None
    target: str  # its name

    @classmethod
    def of(cls, subject: Subject, X, y) -> "Data":
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        target = str(getattr(y, "name", None) or "the target")
        if y is not None:
            y = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y))
            if len(y) != n:
                raise ValueError(f"y has {len(y)} rows and X has {n}: pass the targets of the same rows.")
            if not hasattr(subject.model, "classes_"):
                try:
                    y = y.astype(np.float64)
                except (TypeError, ValueError):
                    raise ValueError(
                        f"y holds {y[0]!r}, and the model predicts numbers: pass the column that it was trained on."
                    ) from None
                if not np.all(np.isfinite(y)):
                    raise ValueError("y has values that are missing or infinite: leave out these rows.")
        return cls(X, y, target)

    @property
    def n_rows(self) -> int:
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    def row(self, i: int) -> Any:
        if hasattr(self.X, "iloc"):
            return self.X.iloc[i : i + 1]
        if sp.issparse(self.X):
            return self.X.tocsr()[i : i + 1]
        return self.X[i] if isinstance(self.X, list) else self.X[i : i + 1]

    def columns(self) -> list[Column]:
        """What stands in the columns of a table; nothing of texts and sparse matrices."""
        if sp.issparse(self.X) or not hasattr(self.X, "shape"):
            return []
        import pandas

        table = as_pandas(self.X) if is_polars(self.X) else self.X
        if not isinstance(table, pandas.DataFrame):
            table = np.asarray(table)
            if table.ndim != 2:
                return []
            table = pandas.DataFrame(table, columns=[f"x{j}" for j in range(table.shape[1])])
        return [_column(table.iloc[:, j]) for j in range(min(table.shape[1], MOST_COLUMNS))]

    def words(self) -> str:
        if sp.issparse(self.X):
            n, d = self.X.shape
            return f"{n:,} rows of {d:,} features, of which {brief(self.X.nnz / max(n, 1))} a row are not 0."
        if hasattr(self.X, "shape") and len(self.X.shape) == 2:
            return f"{self.X.shape[0]:,} rows of {self.X.shape[1]:,} columns."
        return f"{self.n_rows:,} rows."


def _column(column) -> Column:
    from pandas.api import types

    there = column.dropna()
    missing = len(column) - len(there)
    try:
        distinct = int(there.nunique())
    except TypeError:
        return Column(str(column.name), "other", 0, missing, "")
    if types.is_bool_dtype(column.dtype) or not types.is_numeric_dtype(column.dtype):
        if types.is_datetime64_any_dtype(column.dtype) and len(there):
            return Column(str(column.name), "date", distinct, missing, f"{there.min()} to {there.max()}")
        common = there.astype(str).value_counts()[:VALUES]
        parts = [f"{name} ({count / max(len(there), 1):.0%})" for name, count in common.items()]
        return Column(str(column.name), "category", distinct, missing, ", ".join(parts))
    if not len(there):
        return Column(str(column.name), "number", 0, missing, "")
    low, middle, high = (brief(float(value)) for value in (there.min(), there.median(), there.max()))
    return Column(str(column.name), "number", distinct, missing, f"{low} to {high}, median {middle}")


# -- predictions ------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """Predictions beside what was true."""

    y: np.ndarray
    predicted: np.ndarray  # numbers or labels
    probabilities: np.ndarray | None
    scores: dict[str, float]
    without: dict[str, float]  # scores of a constant
    errors: np.ndarray  # how bad each row is; the worst are the largest
    covered: float | None = None  # the part of the targets within intervals for 90% of them

    @classmethod
    def of(cls, model: Any, data: Data) -> "Judged":
        assert data.y is not None
        y, predicted, classes = data.y, model.predict(data.X), getattr(model, "classes_", None)
        if classes is None:
            constant = np.full(len(y), y.mean())
            covered = None
            if hasattr(model, "predict_interval"):
                low, high = model.predict_interval(data.X, 0.9)
                covered = float(np.mean((low <= y) & (y <= high)))
            errors = np.abs(y - predicted)
            return cls(y, predicted, None, of_numbers(y, predicted), of_numbers(y, constant), errors, covered)
        unknown = unknown_labels(y, classes)
        if len(unknown) == len(np.unique(y)):
            raise ValueError(
                f"y has none of the model's classes, {', '.join(map(repr, classes[:5].tolist()))}, but {unknown[0]!r}: "
                "pass the column that it was trained on."
            )
        p = model.predict_proba(data.X) if hasattr(model, "predict_proba") else None
        labels, counts = np.unique(y, return_counts=True)
        shares = np.array([np.mean(y == label) for label in classes])
        values = predicted if p is None else p
        constant = np.full(len(y), labels[counts.argmax()]) if p is None else np.tile(shares, (len(y), 1))
        codes = np.array(
            [{label: c for c, label in enumerate(classes.tolist())}.get(label, -1) for label in y.tolist()]
        )
        if p is not None:
            own = np.where(codes < 0, 1.0, p[np.arange(len(y)), np.maximum(codes, 0)])
            errors = 1 - own
        else:
            f = model.decision_function(data.X)
            margin = np.abs(f) if f.ndim == 1 else np.sort(f, axis=1)[:, -1] - np.sort(f, axis=1)[:, -2]
            errors = np.where(y == predicted, -margin, margin)
        return cls(y, predicted, p, of_classes(y, values, classes), of_classes(y, constant, classes), errors)

    def calibration(self, classes: np.ndarray) -> tuple[str, list[tuple[float, float, int]]]:
        """Bins of equally many rows: of two classes by the second's probability, of more by that of the prediction."""
        assert self.probabilities is not None
        if len(classes) == 2:
            name, p, hit = f"probability of {classes[1]}", self.probabilities[:, 1], self.y == classes[1]
        else:
            name, p, hit = (
                "probability of the predicted class",
                self.probabilities.max(axis=1),
                self.y == self.predicted,
            )
        order = np.argsort(p, kind="stable")
        parts = [part for part in np.array_split(order, min(N_BINS, max(1, len(p) // 10))) if len(part)]
        return name, [(float(p[part].mean()), float(hit[part].mean()), len(part)) for part in parts]

    def confusion(self, classes: np.ndarray) -> list[tuple[Any, list[int]]]:
        """For each class how many of its rows were predicted to be what; nothing where there are too many."""
        if len(classes) > MOST_CONFUSED:
            return []
        return [(a, [int(np.sum((self.y == a) & (self.predicted == b))) for b in classes]) for a in classes]


class Worst(NamedTuple):
    row: int
    actual: Any
    predicted: Any
    said: str  # what the model was sure of
    terms: list[tuple[str, str, float]]  # a product, what stood in the table, its contribution
    total: float


def worst(model: Any, data: Data, judged: Judged) -> list[Worst]:
    """The worst predictions, taken apart."""
    classes = getattr(model, "classes_", None)
    found = []
    for i in np.argsort(-judged.errors, kind="stable")[:N_WORST].tolist():
        if classes is not None and judged.y[i] == judged.predicted[i]:
            break
        predicted, several = judged.predicted[i], classes is not None and len(classes) > 2
        target = predicted if several and not Subject.of(model).model._is_ordered else None
        table = as_pandas(explain(model, data.row(i), target=target, max_degree_terms=50))
        own = table[table["weight"].notna() & (table["degree"] > 0)]
        strongest = own.sort_values("contribution", key=abs, ascending=False, kind="stable")[:N_TERMS]
        inputs = strongest["input"] if "input" in strongest else [""] * len(strongest)
        terms = list(zip(strongest["term"], inputs, strongest["contribution"].tolist(), strict=True))
        if judged.probabilities is not None and classes is not None:
            said = f"with probability {judged.probabilities[i, list(classes).index(predicted)]:.2f}"
        else:
            said = "" if classes is not None else f"off by {brief(float(judged.errors[i]))}"
        found.append(Worst(i, judged.y[i], predicted, said, terms, float(table["contribution"].sum())))
    return found


# -- the model --------------------------------------------------------------------------------------------------------


def in_words(subject: Subject, target: str) -> list[str]:
    """The model in sentences that need no formula."""
    model, d = subject.model, subject.model.n_features_in_
    classes = getattr(model, "classes_", None)
    columns = subject.columns if subject.steps is not None else None
    what = target if classes is None else f"which of {len(classes)} classes a row has"
    source = f"{d:,} features" if columns is None else f"{len(columns):,} columns, which become {d:,} features"
    degrees = Polynomial.of(model, None if classes is None or len(classes) == 2 else _a_class(model)).degrees
    products = [_number(degree) for degree in degrees if degree > 1]
    kind = "different features" if not model._fitted.model.groups[0].form.repeats else "features, powers included"
    singles = "a weight for each feature, and " if 1 in degrees else ""
    rank = model._fitted.model.groups[0].n_bases
    first = f"It predicts {what} from {source}."
    if classes is not None and target != "the target":
        first = f"It predicts {target}, {what}, from {source}."
    sentences = [
        first,
        f"A prediction adds up {singles}a weight for each product of {_listed(products)} {kind}.",
        f"Weights of products are not learned one by one: each feature has {rank} hidden traits, and the traits of "
        "features give the weights of their products. So it can judge combinations that it has never seen.",
    ]
    if hasattr(model, "_posterior"):
        sentences[2] = (
            "Weights of products come from hidden traits of the features, so that it can judge combinations that it "
            "has never seen. It knows how sure it is of each trait, and predicts the mean over all that is possible."
        )
    return sentences


def _a_class(model: Any) -> Any:
    return None if model._is_ordered else model.classes_[0]


def _number(n: int) -> str:
    return {2: "two", 3: "three", 4: "four", 5: "five"}.get(n, str(n))


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


class Strongest(NamedTuple):
    of: str  # a class, or ""
    degree: int
    rows: list[tuple[list[str], float, float | None]]  # names, weight, its standard deviation
    edges: list[tuple[str, str, float]]
    singles: list[tuple[str, float]]


def strongest(estimator: Any, subject: Subject, data: Data | None, top: int) -> list[Strongest]:
    """The strongest products, for each of a few classes, with those of pairs for a picture."""
    classes = getattr(subject.model, "classes_", None)
    targets = [None] if classes is None or len(classes) == 2 or subject.model._is_ordered else classes[:MOST_CLASSES]
    options: dict[str, Any] = {"X": None if data is None else data.X, "budget": BUDGET}
    if data is not None and is_scaled(subject, data):
        options["scale"] = np.asarray(data.X, dtype=np.float64).std(axis=0)
    listed = top if len(targets) == 1 else min(top, TOP_OF_CLASS)
    found = []
    for target in targets:
        degrees = Polynomial.of(subject.model, target).degrees
        options["target"] = target
        table = as_pandas(interactions(estimator, top=listed, **options))
        pairs = as_pandas(interactions(estimator, top=listed, degree=2, **options)) if 2 in degrees else table
        names = [name for name in table if name.startswith("feature_")]
        rows = [
            ([str(row[name]) for name in names], float(row["weight"]), float(row["std"]) if "std" in row else None)
            for _, row in table.iterrows()
        ]
        ends = [name for name in pairs if name.startswith("feature_")]
        edges: dict[tuple[str, str], float] = {}
        for _, row in pairs.iterrows():
            features = [str(row[name]) for name in ends]
            for i, a in enumerate(features):
                for b in features[i + 1 :]:
                    edges.setdefault((a, b), float(row["weight"]))
        singles = []
        if 1 in degrees:
            of_one = as_pandas(interactions(estimator, top=8, degree=1, **options))
            singles = list(zip(map(str, of_one["feature_1"]), of_one["weight"].tolist(), strict=True))
        label = "" if target is None else str(target)
        found.append(Strongest(label, degrees[-1], rows, [(*pair, w) for pair, w in edges.items()], singles))
    return found


def is_scaled(subject: Subject, data: Data) -> bool:
    """Whether weights are multiplied by the spreads of their features, which then compare: where they are numbers."""
    return subject.steps is None and not sp.issparse(data.X) and hasattr(data.X, "shape")


def bases(model: Any) -> tuple[list[float], float]:
    """The share of each basis of the highest degree in the size of all, and the number that they are worth: e to the
    power of the entropy. Nothing of drawn parameters, whose bases are those of many draws."""
    if len(getattr(model, "_posterior", [None])[0] or ()) == 4 or len(model._fitted.targets) > 1:
        return [], 0.0
    p, group = model._fitted.targets[0], model._fitted.model.groups[0]
    norms = np.linalg.norm(p.factors[0].astype(np.float64), axis=2)
    sizes = np.abs(p.lambdas[0]) * (norms.prod(axis=1) if group.form.lifted else norms[:, 0] ** group.degree)
    if not np.sum(sizes) > 0:
        return [], 0.0
    shares = np.sort(sizes / sizes.sum())[::-1]
    worth = float(np.exp(-np.sum(shares[shares > 0] * np.log(shares[shares > 0]))))
    return shares.tolist(), worth


def penalties_by_field(subject: Subject) -> list[tuple[str, int, float | None, float | None]]:
    """(field, features, alpha, beta), where penalties differ from feature to feature and are one for each field."""
    model = subject.model
    d, found = model.n_features_in_, []
    given: list[Any] = [getattr(model, name, None) for name in ("alpha_", "beta_")]
    given = [value if np.shape(value) == (d,) and d > 1 else None for value in given]
    groups = getattr(model, "groups", None)
    if all(value is None for value in given) or groups is None or isinstance(groups, str):
        return []
    labels = np.asarray(groups, dtype=object)
    for label in dict.fromkeys(labels.tolist()):
        here = np.flatnonzero(labels == label)
        values = [None if value is None else float(np.mean(value[here])) for value in given]
        found.append((str(label), len(here), values[0], values[1]))
    return found
