"""n_components="auto": as many bases as the best model of any rank has, for each target its own."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polyfm.conversion import converted
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.loops.forms import form_of

PLACEHOLDER = 10  # bases of models that penalties are chosen with


class Rank(NamedTuple):
    """What is asked of a number of bases that is found by certificates."""

    gap_tol: float  # of the objective
    most: int  # bases
    signs: tuple[int, ...]  # that lambdas may have


def of_one_rank(model: Model, targets: list[Parameters]) -> tuple[Model, list[Parameters]]:
    """The model that holds what staircases have found, direct bases of several numbers: zeros fill them up."""
    group = model.groups[0]
    most = max(len(p.lambdas[0]) for p in targets)
    direct = replace(group, form=form_of(group.form.kernel, "direct", group.degree), n_bases=most)
    filled = []
    for p in targets:
        missing = most - len(p.lambdas[0])
        P = np.pad(p.factors[0], ((0, missing), (0, 0), (0, 0)))
        filled.append(p._replace(factors=(P,), lambdas=(np.pad(p.lambdas[0], (0, missing), constant_values=1),)))
    found = replace(model, groups=(direct,))
    return converted(found, filled, "lifted") if group.form.lifted else (found, filled)
