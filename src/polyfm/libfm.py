"""libFM's text model format, out and in.

The format, as libFM 1.4 writes it with ``-save_model`` and reads it with ``-load_model``:

    #global bias W0                 with its value in the next line; absent with -dim 0,*,*
    #unary interactions Wj          one value a line, for each of the d features; absent with -dim *,0,*
    #pairwise interactions Vj,f     d lines of k values

for f(x) = w0 + <w, x> + sum_(i<j) <v_i, v_j> x_i x_j: a direct factorization machine of degree 2 with all lambdas 1.
"""

import math
import os
from array import array
from typing import IO, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polyfm.core.fitted import Fitted
from polyfm.core.parameters import Parameters
from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.files.atomic import ModelFileError, Path, reading, shown, writing
from polyfm.files.fitted import chosen

__all__ = ["export_libfm", "import_libfm"]

BIAS, UNARY, PAIRS = "#global bias W0", "#unary interactions Wj", "#pairwise interactions Vj,f"
HEADINGS = [BIAS, UNARY, PAIRS]
LONGEST_LINE = 2**24
LINES_AT_ONCE = 10_000


def export_libfm(estimator: Any, path: Path) -> None:
    """Write a factorization machine of degree 2 as a model file of libFM.

    Positive lambdas go into the bases, v_js = sqrt(lambda_s) p_js; a dummy feature (``fit_lower="augment"``) goes into
    w. Numbers are written with all their digits. A model of rank 1 gets a second basis of zeros, because libFM cannot
    read a single column. In libFM, load it with ``-dim 1,1,k``, ``-method sgd`` or ``als``, and data that have the
    same number of features; features are counted from 0.

    Parameters
    ----------
    estimator : FactorizationMachineRegressor or FactorizationMachineClassifier
        Fitted, of degree 2, with ``method="direct"``, no negative lambda and at most two classes.
    path : str or path-like
        Replaced if it exists; written whole or not at all.

    Raises
    ------
    ModelFileError
        If libFM's format cannot express the model, or the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.libfm import export_libfm
    >>> X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 2.0, 4.0]
    >>> model = FactorizationMachineRegressor(n_components=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "model.txt"
    ...     export_libfm(model, path)
    ...     [line for line in path.read_text().splitlines() if line.startswith("#")]
    ['#global bias W0', '#unary interactions Wj', '#pairwise interactions Vj,f']
    """
    w0, w, V = _as_libfm(chosen(estimator), os.fspath(path))
    with writing(path, ModelFileError) as file:
        file.write(f"{BIAS}\n{w0!r}\n{UNARY}\n".encode())
        _write_lines(file, w[:, None])
        file.write(f"{PAIRS}\n".encode())
        _write_lines(file, V)


def import_libfm(path: Path, *, classes: Any = None) -> Any:
    """Read a model file of libFM.

    libFM writes six digits of each number, so that predictions agree with libFM's to about as many; libFM also clips
    those of regression to the range of the training targets. `objective_`, `history_` and `n_iter_` belong to training
    and are not set.

    Parameters
    ----------
    path : str or path-like
        Written by ``-save_model`` or `export_libfm`.
    classes : list of two labels, default=None
        For a model trained with ``-task c``: the labels of the negative and of the positive class. Probabilities are
        those that libFM gives after ``-method sgd``; after ALS it uses a probit instead.

    Returns
    -------
    estimator : FactorizationMachineRegressor, or FactorizationMachineClassifier where `classes` are given
        Fitted. With ``warm_start=True`` it can be trained on.

    Raises
    ------
    ModelFileError
        If there is no such file or it is malformed: with the number and the content of the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from polyfm.libfm import import_libfm
    >>> text = "#global bias W0\\n0.5\\n#unary interactions Wj\\n1\\n2\\n#pairwise interactions Vj,f\\n1 3\\n2 1\\n"
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "model.txt"
    ...     _ = path.write_text(text)
    ...     model = import_libfm(path)
    >>> model.predict([[1.0, 1.0]])  # 0.5 + 1 + 2 + (1 * 2 + 3 * 1)
    array([8.5])
    """
    if classes is not None and (len(classes) != 2 or classes[0] == classes[1]):
        raise ValueError(f"classes must be two different labels, negative first, got {classes!r}.")
    with reading(path, ModelFileError, regular=True) as file:
        w0, w, V = _Parser(os.fspath(path)).parse(file)
    cls = FactorizationMachineRegressor if classes is None else FactorizationMachineClassifier
    estimator = cls(n_components=V.shape[1], fit_linear=w is not None, fit_intercept=w0 is not None)
    estimator.n_features_in_ = len(V)
    if classes is not None:
        estimator.classes_ = np.asarray(classes)
    parameters = Parameters(
        (np.ascontiguousarray(V.T)[:, None, :],),
        (np.ones(V.shape[1]),),
        np.zeros(len(V)) if w is None else w,
        np.array([0.0 if w0 is None else w0]),
    )
    estimator._set_fitted(Fitted(estimator._model(), [parameters]))
    return estimator


# -- out --------------------------------------------------------------------------------------------------------------


def _as_libfm(estimator, path) -> tuple[float, np.ndarray, np.ndarray]:
    """w0, w (d,) and V (d, k) of the same predictions."""

    def refusal(why: str, remedy: str) -> ModelFileError:
        return ModelFileError(f"{path}: libFM's format cannot hold this model: {why}. {remedy}")

    if type(estimator) not in (FactorizationMachineRegressor, FactorizationMachineClassifier):
        raise refusal(
            f"it is a {type(estimator).__name__}",
            "Export a FactorizationMachineRegressor or FactorizationMachineClassifier.",
        )
    check_is_fitted(estimator)
    fitted: Fitted = estimator._fitted
    groups = fitted.model.groups
    if groups[0].degree != 2:
        raise refusal(f"its degree is {groups[0].degree}", "Train with degree=2, or use save_model.")
    if groups[0].form.lifted:
        raise refusal("it is lifted", 'Train with method="direct", or use save_model.')
    if len(fitted.targets) > 1:
        raise refusal(f"it has {len(estimator.classes_)} classes", "Export binary classifiers, or use save_model.")
    parameters = fitted.targets[0].copy(np.float64)
    P, lams = parameters.factors[0][:, 0], parameters.lambdas[0]
    if np.any(lams < 0):
        raise refusal(
            f"{np.sum(lams < 0)} of its {len(lams)} lambdas are negative, which products <v_i, v_j> cannot say",
            'Train with init_lambdas="ones" and fit_lambdas=False, or use save_model.',
        )
    d = estimator.n_features_in_
    w = parameters.coef if fitted.model.fit_linear else np.zeros(d)
    for q in range(d, P.shape[1]):  # a dummy feature is always 1: its products with x_j are linear
        w = w + (lams * P[:, q]) @ P[:, :d]
    V = (np.sqrt(lams)[:, None] * P[:, :d]).T
    if V.shape[1] == 1:
        V = np.column_stack([V, np.zeros(d)])
    return float(parameters.intercept[0]), w, V


def _write_lines(file: IO[bytes], rows: np.ndarray) -> None:
    for begin in range(0, len(rows), LINES_AT_ONCE):
        lines = (" ".join(map(repr, row)) + "\n" for row in rows[begin : begin + LINES_AT_ONCE].tolist())
        file.write("".join(lines).encode())


# -- in ---------------------------------------------------------------------------------------------------------------


class _Parser:
    """Reads the three sections in their order; says which line is wrong."""

    def __init__(self, path: str):
        self.path = path
        self.section = -1
        self.values = [array("d") for _ in HEADINGS]  # of each section
        self.lines = [0] * len(HEADINGS)  # that each section has
        self.width: int | None = None  # of the pairwise section
        self.trailing = 0  # empty lines at its end

    def error(self, line: int, content: bytes, why: str) -> ModelFileError:
        return ModelFileError(
            f"{self.path}, line {line}: {shown(content.rstrip())} {why}. Give a file that libFM's -save_model or "
            "export_libfm has written."
        )

    def parse(self, file: IO[bytes]) -> tuple[float | None, np.ndarray | None, np.ndarray]:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise self.error(number, line[:200], f"is longer than {LONGEST_LINE // 2**20} MiB")
            if not line.endswith(b"\n"):
                raise self.error(number, line, "has no line end after it: the file may be cut short")
            if line.startswith(b"#"):
                self._heading(number, line)
            elif self.section < 0:
                raise self.error(number, line, f"comes before any of the headings {', '.join(HEADINGS)}")
            else:
                self._row(number, line)
        return self._result()

    def _heading(self, number: int, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text not in HEADINGS or HEADINGS.index(text) <= self.section:
            raise self.error(number, line, "is not one of libFM's headings, or out of order")
        self.section = HEADINGS.index(text)

    def _row(self, number: int, line: bytes) -> None:
        try:
            row = [float(part) for part in line.split()]
        except ValueError:
            raise self.error(number, line, "holds something that is not a number") from None
        if not all(map(math.isfinite, row)):
            raise self.error(number, line, "is not finite: libFM's training diverged (try a smaller -learn_rate)")
        if self.section < len(HEADINGS) - 1:
            if len(row) != 1:
                raise self.error(number, line, f"has {len(row)} values, where one is expected")
        else:
            if not row and self.width:
                self.trailing += 1
                return
            if self.trailing or (self.width is not None and self.width != len(row)):
                raise self.error(number, line, f"has {len(row)} values, but lines before it have {self.width}")
            self.width = len(row)
        self.values[self.section].extend(row)
        self.lines[self.section] += 1

    def _result(self) -> tuple[float | None, np.ndarray | None, np.ndarray]:
        n_bias, n_unary, n_pairs = self.lines
        if self.section < len(HEADINGS) - 1 or n_pairs == 0:
            raise ModelFileError(
                f"{self.path}: is cut short, or no model of libFM: nothing follows {PAIRS!r}. Write or copy it again."
            )
        if n_bias > 1 or n_unary not in (0, n_pairs):
            raise ModelFileError(
                f"{self.path}: has {n_bias} values of w0, {n_unary} of w and {n_pairs} lines of V, which do not belong "
                "together (1 or 0, d or 0, and d). Write or copy it again."
            )
        bias, unary, pairs = (np.array(values) for values in self.values)
        V = pairs.reshape(n_pairs, self.width) if self.width else np.zeros((n_pairs, 1))
        return float(bias[0]) if n_bias else None, unary if n_unary else None, V
