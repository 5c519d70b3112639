"""
Choosing beta, and not choosing it
==================================

The penalty beta holds interactions back. Too small, and the model learns noise; too large, and it is linear. How does
one find the right one, and does one have to?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from polyfm import FactorizationMachineRegressor, FactorizationMachineRegressorCV
from polyfm.display import RegularizationPathDisplay

X, y = load_diabetes(return_X_y=True)
X = scale(X)

# %%
# To choose it: ``FactorizationMachineRegressorCV`` follows a path of betas in each fold, from the one that leaves no
# interactions to weak ones.

search = FactorizationMachineRegressorCV(n_components=5, n_betas=12, cv=5, random_state=0).fit(X, y)
print(f"cross-validation takes beta = {search.beta_:.0f}")

# %%
# Not to choose it: by default the data do, in the fit itself, by rows that are held out.

automatic = FactorizationMachineRegressor(n_components=5, random_state=0).fit(X, y)
print(f"the default takes beta = {np.max(automatic.beta_):.0f}, and alpha = {automatic.alpha_:.0f}")

# %%
# The picture: scores along the path, the beta that cross-validation takes, and where the default ends up.

figure, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
RegularizationPathDisplay.from_estimator(search, ax=ax)
ax.axvline(np.max(automatic.beta_), color="#d1495b", linestyle=":", label="chosen by default")
ax.legend(frameon=False, loc="lower left")
ax.set_title("Diabetes: a factorization machine of rank 5")
plt.show()

# %%
# To the left, interactions overfit. To the right they vanish, and what is left is a linear model. The two ways agree
# about the order of magnitude, which is all that is needed.
