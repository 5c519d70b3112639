"""Forms: a kernel in one of its parametrisations, its facts and its compiled methods together, one file each.

A form is a multilinear (or, for the direct homogeneous kernel, polynomial) function of the factors B of one basis:

==================  ===========  =====================================================  ===================
form                factors B    value                                                  cached for a sample
==================  ===========  =====================================================  ===================
`DirectAnova`       p            A^m(p, x)                                              A^1 .. A^(m-1)
`DirectHomogeneous` p            H^m(p, x) = <p, x>^m                                   (no coordinate form)
`LiftedHomogeneous` u^1 .. u^m   prod_t <u^t, x>                                        <u^1, x> .. <u^m, x>
`LiftedAnova`       u^1 .. u^m   sum over distinct features of prod_t u^t_j x_j         f[M], M a subset
`Linear`            w            <w, x>                                                 nothing
==================  ===========  =====================================================  ===================

`polyfm.loops.forms.base` says what a form provides. A new form is one such class and one line in `FORMS`.
"""

from typing import Any

from polyfm.loops.forms.base import Form, form
from polyfm.loops.forms.direct_anova import DirectAnova
from polyfm.loops.forms.direct_homogeneous import DirectHomogeneous
from polyfm.loops.forms.lifted_anova import LiftedAnova
from polyfm.loops.forms.lifted_homogeneous import LiftedHomogeneous
from polyfm.loops.forms.linear import Linear

FORMS: dict[tuple[str, str], Any] = {  # by kernel and method
    (cls.kernel, cls.method): cls for cls in (DirectAnova, DirectHomogeneous, LiftedAnova, LiftedHomogeneous)
}


def form_of(kernel: str, method: str, degree: int) -> Any:
    """The form by its names."""
    return FORMS[kernel, method].of_degree(degree)


__all__ = [
    "FORMS",
    "DirectAnova",
    "DirectHomogeneous",
    "Form",
    "LiftedAnova",
    "LiftedHomogeneous",
    "Linear",
    "form",
    "form_of",
]
