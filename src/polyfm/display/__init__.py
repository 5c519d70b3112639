"""Pictures, in the manner of scikit-learn's displays: `from_estimator` computes and plots, `plot` plots again.

Each display keeps what it shows as attributes, and `ax_` and `figure_` after `plot`. matplotlib is imported by `plot`.
"""

from polyfm.display.convergence import ConvergenceDisplay
from polyfm.display.coverage import CoverageDisplay
from polyfm.display.diagnosis import DiagnosisDisplay
from polyfm.display.interactions import InteractionDisplay
from polyfm.display.path import RegularizationPathDisplay

__all__ = [
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DiagnosisDisplay",
    "InteractionDisplay",
    "RegularizationPathDisplay",
]
