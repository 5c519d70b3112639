"""
From a CSV, in the shell
========================

No Python is needed to go from a table to predictions. Here the commands run in a temporary directory; in a shell, type
what stands after the dollar sign.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

folder = Path(tempfile.mkdtemp())


def shell(command):
    print(f"$ {command}")
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(
        words, cwd=folder, check=True, text=True, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout)


# %%
# A table as people have it: ids, categories, numbers, gaps.

rng = np.random.RandomState(0)
n = 3000
table = pd.DataFrame(
    {
        "driver": rng.randint(40, size=n),
        "road": rng.choice(["city", "hills", "coast", "motorway"], n),
        "load": rng.uniform(0, 20, n).round(1),
    }
)
steep = table["road"].map({"city": 0.2, "hills": 0.8, "coast": 0.3, "motorway": 0.1})
style = rng.standard_normal(40)[table["driver"]] * table["road"].map({"city": 1, "hills": 2, "coast": 1, "motorway": 0})
table["fuel"] = (20 + steep * table["load"] + style + rng.standard_normal(n)).round(2)
table.loc[rng.choice(n, 60, replace=False), "load"] = np.nan
table[:2400].to_csv(folder / "trips.csv", index=False)
table[2400:].to_csv(folder / "new.csv", index=False)

# %%
# Fit. The command says what it made of each column, and how well held-out rows are predicted.

shell("polyfm fit trips.csv --target fuel --field driver --random-state 0 --model trips.polyfm")

# %%
# Predict, and look at what was learned.

shell("polyfm predict trips.polyfm new.csv --keep fuel --out predictions.csv")
shell("polyfm explain trips.polyfm --data new.csv --top 5")

# %%
# The picture: predictions for the new trips against what they took.

made = pd.read_csv(folder / "predictions.csv")
figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for road, colour in zip(table["road"].unique(), ("#e0a458", "#d1495b", "#4f9d69", "#2f7fc1"), strict=True):
    here = (table["road"][2400:] == road).to_numpy()
    ax.scatter(made["fuel"][here], made["prediction"][here], s=10, color=colour, label=road, alpha=0.8)
ax.axline((25, 25), slope=1, color="#b8bcc4", zorder=0)
ax.set(xlabel="litres, in truth", ylabel="litres, predicted")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The file ``trips.polyfm`` holds the encoder and the model, opens in Python with ``polyfm.load_model``, and runs no
# code when it does.
