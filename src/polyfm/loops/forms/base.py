"""What a form provides: facts for Python, and methods that loops compile.

**Facts** are class attributes or properties. Those that most forms share have defaults (`form` fills them in).

=================  ============================================================================  ====================
fact               meaning                                                                       default
=================  ============================================================================  ====================
`kernel, method`   its names: the key in `FORMS`
`n_slots`          numbers of working space that a row needs for each basis                      the degree
`n_cached`         numbers that coordinate descent keeps for a sample beside its prediction      `n_slots`
`lifted`           whether a basis has m factors u^1 .. u^m, and no lambda, or one, p            False
`n_factors`        factors of one basis                                                          m if lifted, else 1
`multilinear`      whether it is affine in every single parameter: what descent needs            True
`n_turns`          turns that block descent takes to visit all factors of a feature              1
`cofactor_form`    the form whose working space `cofactor` reads                                 itself
`scale`            what multiplies the value (the lifted ANOVA form counts each set m! times)    1
`n_augmenting`     dummy features that give the model all lower degrees too (section 8)          0: it cannot
`repeats`          whether a feature may stand twice in a monomial; None: it is no polynomial    None
                   that `polyfm.interpretation` can read
`parts`            a method: from the working space A, an array (slots, ...), to a list of       None: it cannot be
                   arrays, 1 first and the value last, such that the value of u + v, of          split
                   disjoint features, is sum_q part_weights[q] parts(u)[q] parts(v)[-1 - q]
`part_weights`     the weights in that sum                                                       all 1
=================  ============================================================================  ====================

**Compiled methods.** Each form speaks twice. Coordinate descent walks down the columns of X with one basis at hand;
row S[i] holds what sample i needs in one cache line, the prediction in column 0 and the form's cache after it:

- ``reset(S, i)`` makes the cache of sample i that of a row without features,
- ``include(S, i, B, j, x)`` adds feature j, of value x, to it,
- ``partial(S, i, B, t, j, x)`` is the derivative of the value by B[t, j],
- ``update(S, i, B, t, j, x, delta)`` keeps the cache true to B[t, j] += delta and returns the same derivative.

Prediction and gradients walk along rows with all bases at hand. A formula is that of one basis s; the loops over rows
ask for it with `lanes.lanes(s)` in its place, and so for several bases at once:

- ``absorb(A, T, j, x, s)`` adds feature j to the working space A (slots x bases), with the factors T[j, t, s],
- ``total(A, s)`` is then the value of basis s,
- ``emit(A, T, G, to, c, j, x, s)`` adds c_s times the derivative by T[j, t, s] to G[to, t, s].

Block descent solves for several factors of a feature at once:

- ``joint(t)`` is the range of factors that the value is jointly affine in, at turn t,
- ``cofactor(A, t, j, s)`` is what multiplies B[t, j] x in the value, where A (of `cofactor_form`) holds all features
  or, unless ``counts_itself()``, all but j.

A form that is not multilinear needs none of the first and last group.

The degree is the length of the tuple `degree_slots`, so that numba knows it when it compiles and unrolls the loops over
it. Further fields may be arrays, such as the field of each feature; override `of_degree` then.
"""

from typing import Any, Protocol

from polyfm.loops.jit import compiled, inline


class Form(Protocol):
    """What Python reads of a form."""

    kernel: str
    method: str
    degree: int
    n_slots: int
    n_cached: int
    lifted: bool
    n_factors: int
    multilinear: bool
    n_turns: int
    cofactor_form: "Form"
    scale: float
    n_augmenting: int
    repeats: bool | None
    parts: Any
    part_weights: tuple[float, ...] | None

    @classmethod
    def of_degree(cls, degree: int) -> "Form": ...


_DEFAULTS: dict[str, Any] = {
    "degree": property(lambda self: len(self.degree_slots)),
    "of_degree": classmethod(lambda cls, degree: cls((0.0,) * degree)),
    "n_slots": property(lambda self: self.degree),
    "n_cached": property(lambda self: self.n_slots),
    "lifted": False,
    "n_factors": property(lambda self: self.degree if self.lifted else 1),
    "multilinear": True,
    "n_turns": 1,
    "cofactor_form": property(lambda self: self),
    "scale": 1.0,
    "n_augmenting": 0,
    "repeats": None,
    "parts": None,
    "part_weights": None,
}


def form(cls: Any) -> Any:
    """Make a named tuple a form (a class decorator): its methods compile, and it has every fact."""
    for name, fact in _DEFAULTS.items():
        if not hasattr(cls, name):
            setattr(cls, name, fact)
    return compiled(cls)


@inline
def one(array):
    """1 in the precision of `array`: a plain 1.0 would turn single precision into double."""
    return array.dtype.type(1.0)
