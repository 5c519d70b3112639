"""What a type checker must not let pass: one mistake a line, marked by what it is to be called."""

import polyfm

polyfm.FactorizationMachineRegressor(degree="3")  # arg-type
polyfm.FactorizationMachineRegressor(rank=3)  # call-arg
polyfm.FactorizationMachineRegressor().predict()  # call-arg
polyfm.FactorizationMachineClassifier().fit([[1.0]])  # call-arg
polyfm.interactions(None, top="many")  # arg-type
polyfm.no_such_name()  # attr-defined
