"""Beyond the paper: Figure 4 with degrees 4 and 5, and with degree 2, of which the paper tells in words."""

from polyfm.reproduce import regression
from polyfm.reproduce.experiment import Experiment

EXPERIMENT = Experiment(
    name="beyond-degrees",
    title="Regression performance as a function of the number of bases, degrees 2, 4 and 5",
    fixed={**regression.FIXED, "anova": "direct"},
    grid={
        "set": ["abalone", "cadata", "cpusmall"],
        "degree": [2, 4, 5],
        "model": list(regression.MODELS),
        "rank": [1, 2, 4, 8],
        "seed": [0, 1],
    },
    quick=regression.QUICK,
    quick_grid={"set": ["abalone"], "degree": [4], "rank": [1, 2], "seed": [0]},
    cells=regression.cells,
    compute=regression.compute,
    draw=regression.draw,
    cost=regression.cost,
    notes=(
        "H^m is lifted and augmented, with r = k/m. A^m is direct and augmented, with k bases and lambda = +-1: "
        "lifted, its cost grows as 2^m.",
        *regression.NOTES,
    ),
)
