"""Figure 4: regression with a small number of bases of degree 3. Section 9.4 of the paper."""

from polyfm.reproduce import regression
from polyfm.reproduce.experiment import Experiment

EXPERIMENT = Experiment(
    name="figure4",
    title="Regression performance as a function of the number of bases",
    fixed=regression.FIXED,
    grid={
        "set": ["abalone", "cadata", "cpusmall"],
        "degree": [3],
        "model": list(regression.MODELS),
        "rank": [1, 2, 4, 8, 16],
        "seed": range(3),
    },
    quick=regression.QUICK,
    quick_grid={"set": ["abalone"], "rank": [1, 2], "seed": [0]},
    cells=regression.cells,
    compute=regression.compute,
    draw=regression.draw,
    cost=regression.cost,
    notes=("H^3 and A^3 are lifted and augmented, with r = k/3.", *regression.NOTES),
)
