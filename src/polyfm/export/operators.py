"""Polynomials in the operators of ONNX.

Letters: n rows, d features, K bases of all targets, m the degree; x (n, d) the rows.

How products of *distinct* features are summed decides how fast and how exact a prediction is. Power sums, such as
(<p, x>^2 - sum_j p_j^2 x_j^2) / 2, are products of matrices, but subtract large numbers, the larger the higher the
degree. The recursion over features, a_t += p_j x_j a_(t-1), subtracts nothing, but takes longer. Power sums are taken
at degree 2, and at degree 3 where there are many features (docs/decisions/0013-onnx.md says why); the recursion else.
Everything is in double precision.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from polyfm.export.content import Bases, Content

Places: TypeAlias = tuple[int, ...]  # of factors in a product

MOST_FEATURES_TO_VISIT = 200  # one after the other at degree 3: about half a millisecond


class Graph:
    """Nodes and constants as they come; `add_node` and `add_constant` put them where they belong."""

    def __init__(self, add_node: Callable[..., None], add_constant: Callable[[np.ndarray, str], None], new_name: Any):
        self._add_node, self._add_constant, self._new_name = add_node, add_constant, new_name

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """One node with one output, whose name is returned."""
        output = output or self._new_name(operator.lower())
        self._add_node(operator, list(inputs), [output], **attributes)
        return output

    def several(self, operator: str, inputs: list[str], n: int, **attributes: Any) -> list[str]:
        outputs = [self._new_name(operator.lower()) for _ in range(n)]
        self._add_node(operator, inputs, outputs, **attributes)
        return outputs

    def constant(self, values: Any) -> str:
        name = self._new_name("constant")
        self._add_constant(np.asarray(values), name)
        return name

    def within(self) -> "tuple[Graph, Callable[..., Any]]":
        """A graph within this one, such as the body of a loop, and what makes it of its name, its inputs and its
        outputs with their shapes, which runtimes ask for; None is a size that is not known."""
        from onnx import TensorProto, helper, numpy_helper

        nodes: list[Any] = []
        constants: list[Any] = []

        def values(shapes: dict[str, list[int | None]]) -> list[Any]:
            return [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name, shape in shapes.items()]

        def make(name: str, inputs: dict[str, list[int | None]], outputs: dict[str, list[int | None]]) -> Any:
            return helper.make_graph(nodes, name, values(inputs), values(outputs), constants)

        inner = Graph(
            lambda operator, i, o, **more: nodes.append(helper.make_node(operator, i, o, **more)),
            lambda values, name: constants.append(numpy_helper.from_array(values, name)),
            self._new_name,
        )
        return inner, make


def values(graph: Graph, content: Content, x: str) -> str:
    """The model's values (n, T) for rows x (n, d) of doubles."""
    terms = [_expansion(graph, bases, x, content.n_targets, content.n_features) for bases in content.bases]
    if content.coef is not None:
        terms.append(graph("MatMul", x, graph.constant(content.coef.T.copy())))
    return graph("Sum", *terms, graph.constant(content.intercept))


def takes_power_sums(degree: int, d: int) -> bool:
    return degree == 2 or (degree == 3 and d > MOST_FEATURES_TO_VISIT)


def _expansion(graph: Graph, bases: Bases, x: str, n_targets: int, d: int) -> str:
    """sum_s lambda_s K(p_s, x) for every target: (n, T)."""
    group, lambdas = bases.group, bases.lambdas
    if group.form.repeats:
        each = _product(graph, bases, x, d)
    elif takes_power_sums(group.degree, d):
        each = _by_power_sums(graph, bases, x, d)
        if not group.form.lifted:
            lambdas = lambdas / math.factorial(group.degree)
    else:
        each = _by_recursion(graph, bases, x, d)
    apart = graph("Reshape", each, graph.constant([-1, *lambdas.shape]))
    return graph("ReduceSum", graph("Mul", apart, graph.constant(lambdas)), graph.constant([2]), keepdims=0)


def _factors(bases: Bases) -> list[int]:
    """Which factor of a basis stands at each of the m places of its products."""
    return list(range(bases.group.degree)) if bases.group.form.lifted else [0] * bases.group.degree


def _product(graph: Graph, bases: Bases, x: str, d: int) -> str:
    """The homogeneous kernel: prod_t <u_t, x>, where dummy features add to <u_t, x>."""
    places = _factors(bases)
    sums = {t: _sums(graph, x, graph.constant(bases.factors[:, t, :d].T.copy()), bases.factors[:, t, d:].sum(axis=1))
            for t in sorted(set(places))}  # fmt: skip
    found = sums[places[0]]
    for t in places[1:]:
        found = graph("Mul", found, sums[t])
    return found


def _sums(graph: Graph, x: str, by_feature: str, of_dummies: np.ndarray) -> str:
    sums = graph("MatMul", x, by_feature)
    return graph("Add", sums, graph.constant(of_dummies)) if of_dummies.any() else sums


def _by_power_sums(graph: Graph, bases: Bases, x: str, d: int) -> str:
    """m! times the ANOVA kernel, or the lifted one without its scale: (n, K).

    f(S), the sum over distinct features for the places S, is sum_T (-1)^(|T| - 1) (|T| - 1)! p(T) f(S - T), over the
    subsets T of S that hold the first place, with the power sums p(T) = sum_j prod_(t in T) u_tj x_j.
    """
    powers: dict[int, str] = {1: x}
    matrices: dict[Places, str] = {}
    sums: dict[Places, str] = {}
    found: dict[Places, str] = {}
    for t in set(_factors(bases)):
        matrices[t,] = graph.constant(bases.factors[:, t, :d].T.copy())

    def matrix(T: Places) -> str:
        if T not in matrices:
            matrices[T] = graph("Mul", matrix(T[:-1]), matrices[T[-1:]])  # of constants: made once, when it is loaded
        return matrices[T]

    def power(n: int) -> str:
        if n not in powers:
            powers[n] = graph("Mul", power(n - 1), x)
        return powers[n]

    def power_sum(T: Places) -> str:
        if T not in sums:
            of_dummies = bases.factors[:, list(T), d:].prod(axis=1).sum(axis=1)
            sums[T] = _sums(graph, power(len(T)), matrix(T), of_dummies)
        return sums[T]

    def f(S: Places) -> str:
        if S not in found:
            counts: dict[tuple[Places, Places], float] = {}
            for size in range(len(S)):
                for others in itertools.combinations(range(1, len(S)), size):
                    T = (S[0], *(S[i] for i in others))
                    rest = tuple(S[i] for i in range(1, len(S)) if i not in others)
                    counts[T, rest] = counts.get((T, rest), 0) + (-1.0) ** size * math.factorial(size)
            terms = []
            for (T, rest), count in counts.items():
                term = power_sum(T) if not rest else graph("Mul", power_sum(T), f(rest))
                terms.append(term if count == 1 else graph("Mul", term, graph.constant(count)))
            found[S] = terms[0] if len(terms) == 1 else graph("Sum", *terms)
        return found[S]

    return f(tuple(_factors(bases)))


def _by_recursion(graph: Graph, bases: Bases, x: str, d: int) -> str:
    """The ANOVA kernel, or the lifted one without its scale, feature by feature: (n, K).

    A state has a slot for each degree up to m (or, lifted, for each subset of the m factors), the first always 1 and
    one more always 0. A feature adds c_t = u_tj x_j times slot `before[t][s]` to slot s.
    """
    m, lifted = bases.group.degree, bases.group.form.lifted
    n_slots, n_factors = (2**m if lifted else m + 1), bases.factors.shape[1]
    nothing = n_slots
    slots = np.arange(n_slots)
    if lifted:
        before = [np.where(slots >> t & 1, slots ^ (1 << t), nothing) for t in range(m)]
    else:
        before = [np.where(slots > 0, slots - 1, nothing)]
    before = [np.append(of_factor, nothing) for of_factor in before]

    start = np.zeros((n_slots + 1, len(bases.factors)))
    start[0] = 1.0
    for j in range(d, bases.factors.shape[2]):  # dummies, which are always 1
        start = start + sum(bases.factors[:, t, j] * start[before[t]] for t in range(n_factors))

    body, make = graph.within()
    one = body("Mul", "x_of_feature", "factors_of_feature")  # (n, 1) * (factors, 1, K)
    changes = [one] if n_factors == 1 else body.several("Split", [one], n_factors, axis=0, num_outputs=n_factors)
    terms = [
        body("Mul", change, body("Gather", "state", body.constant(of_factor), axis=0))
        for change, of_factor in zip(changes, before, strict=True)
    ]
    after = body("Sum", "state", *terms)
    shape_of_state = [n_slots + 1, None, len(bases.factors)]
    shapes = {
        "state": shape_of_state, "x_of_feature": [None, 1], "factors_of_feature": [n_factors, 1, len(bases.factors)],
    }  # fmt: skip
    loop = make("feature", shapes, {after: shape_of_state})

    n = graph("Shape", x, start=0, end=1)
    shape = graph("Concat", graph.constant([1]), n, graph.constant([1]), axis=0)
    state = graph("Expand", graph.constant(start[:, None]), shape)
    columns = graph("Unsqueeze", graph("Transpose", x, perm=[1, 0]), graph.constant([2]))
    factors = graph.constant(np.ascontiguousarray(bases.factors[:, :, :d].transpose(2, 1, 0)[:, :, None]))
    last = graph("Scan", state, columns, factors, body=loop, num_scan_inputs=2)
    return graph("Gather", last, graph.constant(n_slots - 1), axis=0)
