"""The experiments of the paper's section 9, and some that go beyond it: ``polyfm reproduce``.

Each experiment is a small module that says what is computed (`Experiment`); `run` computes what is not on disk yet and
writes a table (CSV), its circumstances (JSON) and a picture (PNG).
"""

from polyfm.reproduce import classes, degrees, figure1, figure2, figure3, figure4, theorem2
from polyfm.reproduce.experiment import Experiment, run

COMMANDS: dict[str, tuple[Experiment, ...]] = {
    "figure1": (figure1.EXPERIMENT,),
    "figure2": (figure2.EXPERIMENT,),
    "figure3": (figure3.EXPERIMENT,),
    "figure3-one-penalty": (figure3.ONE_PENALTY,),
    "figure4": (figure4.EXPERIMENT,),
    "theorem2": (theorem2.EXPERIMENT,),
    "beyond": (degrees.EXPERIMENT, classes.EXPERIMENT),
}

__all__ = ["COMMANDS", "Experiment", "run"]
