"""`to_c`: a model as one C99 file that needs nothing but a compiler."""

import re
import string
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import polyfm
from polyfm.export.content import Bases, Content, ExportError
from polyfm.files.atomic import Path, check_writable, writing

NUMBERS_A_LINE = 6
LARGEST_STATE = 2**12  # numbers that the bases which are worked on together keep on the stack
MOST_SLOTS = 2**16
LONGEST_TEXT = 4095  # bytes of a string that C99 promises
PLAIN = string.ascii_letters + string.digits + " !#$&'()*+,-./:;<=>@[]^_`{|}~"  # neither " nor \\, and no trigraphs


def to_c(model: Any, path: Path, *, name: str = "polyfm", raw_scores: bool = False) -> None:
    """Write a fitted model as a C99 file without dependencies, which predicts in double precision.

    The file begins with what it defines: ``NAME_predict`` of a row of all features, ``NAME_predict_sparse`` of a row
    given by those that are not 0, and, of a classifier, ``NAME_label`` and ``NAME_probabilities`` (where the loss has
    them). It has no state and allocates nothing, so that threads may share it.

    Parameters
    ----------
    model : estimator
        Fitted. Of a pipeline, pass the last step, and encode rows before they come to C.
    path : str or path-like
        Replaced if it exists; written whole or not at all.
    name : str, default="polyfm"
        What all names in the file begin with: with two, two models fit into one program.
    raw_scores : bool, default=False
        Whether to leave out probabilities: needed for losses of your own that have them.

    Raises
    ------
    ExportError
        If the model cannot be expressed, or the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.export import to_c
    >>> X = np.random.RandomState(0).standard_normal((50, 3))
    >>> fm = FactorizationMachineRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "model.c"
    ...     to_c(fm, path, name="fm")
    ...     "int fm_predict(const double *x, double *out)" in path.read_text()
    True
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,20}", name):
        raise ExportError(f"name={name!r} cannot begin names in C. Pass a short word of letters, digits and _.")
    if isinstance(model, Pipeline):
        raise ExportError(
            "A Pipeline is not written as C: its transformers are Python's. Pass its last step, to_c(pipeline[-1], "
            "...), and give C the rows that pipeline[:-1].transform makes; or use to_onnx, which has transformers."
        )
    content = Content.of(model, raw_scores=raw_scores)
    names = getattr(model, "feature_names_in_", None)
    for bases in content.bases:
        if _n_slots(bases) > MOST_SLOTS:
            raise ExportError(
                f"A lifted model of degree {bases.group.degree} is not written as C: it would keep 2^"
                f"{bases.group.degree} numbers a basis. Train with method='direct'."
            )
    check_writable(path, ExportError)
    with writing(path, ExportError) as file:
        for text in _file(content, name, names):
            file.write(text.encode("ascii"))


def _file(content: Content, name: str, feature_names: Any) -> Iterator[str]:
    d, n_targets = content.n_features, content.n_targets
    yield _HEAD.format(
        model=content.name, version=polyfm.__version__, name=name, upper=name.upper(), d=d, n_targets=n_targets,
        out=_meaning(content),
    )  # fmt: skip
    if content.classes is not None:
        yield _PROTOTYPES_OF_CLASSES.format(name=name, upper=name.upper(), n_classes=len(content.classes))
        if content.has_probabilities:
            yield f"void {name}_probabilities(const double *out, double *p); /* one for each class; out as above */\n"
    yield "\n"
    if content.classes is not None:
        yield from _texts(f"{name}_classes", content.classes.tolist())
    if feature_names is not None:
        yield f"extern const char *const {name}_features[];\n"
        yield from _texts(f"{name}_features", list(feature_names))
    yield from _array("intercept", content.intercept)
    if content.coef is not None:
        yield from _array("coef", content.coef)
    for g, bases in enumerate(content.bases):
        yield from _array(f"factors_{g}", bases.factors.transpose(2, 1, 0))
        yield from _array(f"lambdas_{g}", bases.lambdas)
        yield _GROUP.format(g=g, d=d, **_formulas(bases))
    linear = _LINEAR.format(d=d, n_targets=n_targets) if content.coef is not None else ""
    calls = "".join(f"    add_group_{g}(n, indices, x, f);\n" for g in range(len(content.bases)))
    clip = "" if content.clip is None else _CLIP.format(*map(repr, content.clip))
    yield _PREDICT.format(name=name, d=d, n_targets=n_targets, linear=linear, calls=calls, clip=clip)
    if content.classes is not None:
        yield (_LABEL_OF_TWO if n_targets == 1 else _LABEL).format(name=name, n_targets=n_targets)
        if content.has_probabilities:
            yield _PROBABILITY + (_TWO if n_targets == 1 else _SEVERAL).format(name=name, n_targets=n_targets)


def _meaning(content: Content) -> str:
    if content.classes is None:
        return "the prediction"
    if content.n_targets == 1:
        return "a value that is positive for the second class"
    return f"{content.n_targets} values, the largest for the class to predict"


# -- arrays and texts -------------------------------------------------------------------------------------------------


def _array(name: str, values: np.ndarray) -> Iterator[str]:
    """Numbers with all their digits, as one long array."""
    flat = values.ravel()
    yield f"static const double {name}[{len(flat)}] = {{\n"
    for begin in range(0, len(flat), NUMBERS_A_LINE):
        yield "    " + "".join(f"{number!r}, " for number in flat[begin : begin + NUMBERS_A_LINE].tolist()) + "\n"
    yield "};\n\n"


def _texts(name: str, texts: list[Any]) -> Iterator[str]:
    yield f"const char *const {name}[{len(texts)}] = {{\n"
    for text in texts:
        yield f"    {_quoted(str(text))},\n"
    yield "};\n\n"


def _quoted(text: str) -> str:
    """A string of C: everything but letters, digits and a few signs is written by its number."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LONGEST_TEXT:
        raise ExportError(
            f"The name {text[:40]!r}... has {len(data)} bytes, more than C99 promises ({LONGEST_TEXT}). Shorten it."
        )
    return '"' + "".join(chr(c) if chr(c) in PLAIN else f"\\{c:03o}" for c in data) + '"'


# -- formulas ---------------------------------------------------------------------------------------------------------


def _n_slots(bases: Bases) -> int:
    form, m = bases.group.form, bases.group.degree
    return bases.factors.shape[1] if form.repeats else 2**m if form.lifted else m + 1


def _formulas(bases: Bases) -> dict[str, Any]:
    """What differs between the forms: how a feature goes into the state a of a basis, and the value that comes out."""
    form, m, slots = bases.group.form, bases.group.degree, _n_slots(bases)
    n_bases, n_factors, n_columns = bases.factors.shape
    known: dict[str, Any] = {
        "degree": m, "slots": slots, "n_bases": n_bases, "n_factors": n_factors, "n_columns": n_columns,
        "bases_of_target": bases.lambdas.shape[1], "width": max(1, min(32, LARGEST_STATE // slots)),
    }  # fmt: skip
    if form.repeats:
        known |= {"first": "0.0", "absorb": _ABSORB_SUMS, "value": _VALUE_LIFTED if form.lifted else _VALUE_POWER}
    else:
        known |= {"first": "t == 0 ? 1.0 : 0.0", "absorb": _ABSORB_SUBSETS if form.lifted else _ABSORB_DEGREES}
        known["value"] = f"                const double value = a[{slots - 1}][s];\n"
    return known | {part: known[part].format(**known) for part in ("absorb", "value")}


_HEAD = """\
/* A {model}, written by polyfm {version}. C99, without dependencies.

   {name}_predict         a row of all {upper}_FEATURES features
   {name}_predict_sparse  a row of n features that are not 0: their numbers, counted from 0, in rising order, and values
   out                {out}
   returns            0, or -1 where an index is too large or out of order: then out is left alone */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum {{ {upper}_FEATURES = {d}, {upper}_OUTPUTS = {n_targets} }};

int {name}_predict(const double *x, double *out);
int {name}_predict_sparse(size_t n, const uint32_t *indices, const double *values, double *out);
"""

_PROTOTYPES_OF_CLASSES = """\
enum {{ {upper}_CLASSES = {n_classes} }};
extern const char *const {name}_classes[];
int {name}_label(const double *out); /* the position in {name}_classes */
"""

_GROUP = """\
/* The sum over all bases of degree {degree}. Without indices, x has all features. */
static void add_group_{g}(size_t n, const uint32_t *indices, const double *x, double *f)
{{
    size_t begin, i, s, t;
    for (begin = 0; begin < {n_bases}; begin += {width}) {{
        const size_t width = {n_bases} - begin < {width} ? {n_bases} - begin : {width};
        double a[{slots}][{width}];
        for (t = 0; t < {slots}; t++)
            for (s = 0; s < {width}; s++)
                a[t][s] = {first};
        for (i = 0; i < n + {n_columns} - {d}; i++) {{ /* dummy features, which are 1, come last */
            const size_t j = i >= n ? {d} + (i - n) : indices ? indices[i] : i;
            const double v = i >= n ? 1.0 : x[i];
            const double *p = factors_{g} + j * {n_factors} * {n_bases} + begin;
            if (v == 0.0)
                continue;
            for (s = 0; s < width; s++) {{
{absorb}            }}
        }}
        for (s = 0; s < width; s++) {{
{value}            f[(begin + s) / {bases_of_target}] += lambdas_{g}[begin + s] * value;
        }}
    }}
}}

"""

_ABSORB_DEGREES = """\
                const double c = p[s] * v;
                for (t = {degree}; t > 0; t--)
                    a[t][s] += c * a[t - 1][s];
"""
_ABSORB_SUBSETS = """\
                size_t set;
                for (set = {slots} - 1; set > 0; set--) {{
                    double sum = 0.0;
                    for (t = 0; t < {degree}; t++)
                        if (set >> t & 1)
                            sum += p[t * {n_bases} + s] * a[set ^ ((size_t)1 << t)][s];
                    a[set][s] += v * sum;
                }}
"""
_ABSORB_SUMS = """\
                for (t = 0; t < {n_factors}; t++)
                    a[t][s] += p[t * {n_bases} + s] * v;
"""
_VALUE_LIFTED = """\
            double value = a[0][s];
            for (t = 1; t < {degree}; t++)
                value *= a[t][s];
"""
_VALUE_POWER = """\
            double value = a[0][s];
            for (t = 1; t < {degree}; t++)
                value *= a[0][s];
"""

_LINEAR = """\
    for (t = 0; t < {n_targets}; t++)
        for (i = 0; i < n; i++)
            f[t] += coef[t * {d} + (indices ? indices[i] : i)] * x[i];
"""
_CLIP = """\
    if (f[0] < {0})
        f[0] = {0};
    else if (f[0] > {1})
        f[0] = {1};
"""

_PREDICT = """\
static void predict(size_t n, const uint32_t *indices, const double *x, double *f)
{{
    size_t i, t;
    (void)i;
    for (t = 0; t < {n_targets}; t++)
        f[t] = intercept[t];
{linear}{calls}{clip}}}

int {name}_predict(const double *x, double *out)
{{
    predict({d}, NULL, x, out);
    return 0;
}}

int {name}_predict_sparse(size_t n, const uint32_t *indices, const double *values, double *out)
{{
    size_t i;
    for (i = 0; i < n; i++)
        if (indices[i] >= {d} || (i > 0 && indices[i] <= indices[i - 1]))
            return -1;
    predict(n, indices, values, out);
    return 0;
}}
"""

_LABEL_OF_TWO = """
int {name}_label(const double *out)
{{
    return out[0] > 0.0;
}}
"""
_LABEL = """
int {name}_label(const double *out)
{{
    int t, best = 0;
    for (t = 1; t < {n_targets}; t++)
        if (out[t] > out[best])
            best = t;
    return best;
}}
"""

_PROBABILITY = """
static double probability(double f)
{
    const double e = exp(-fabs(f));
    return f >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
"""
_TWO = """
void {name}_probabilities(const double *out, double *p)
{{
    p[1] = probability(out[0]);
    p[0] = 1.0 - p[1];
}}
"""
_SEVERAL = """
void {name}_probabilities(const double *out, double *p)
{{
    double total = 0.0;
    int t;
    for (t = 0; t < {n_targets}; t++) {{
        p[t] = probability(out[t]);
        total += p[t];
    }}
    for (t = 0; t < {n_targets}; t++)
        p[t] = total > 0.0 ? p[t] / total : 1.0 / {n_targets};
}}
"""
