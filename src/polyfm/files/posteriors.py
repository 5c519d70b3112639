"""The posterior of a Bayesian estimator as a record; read back with suspicion."""

from typing import Any

import numpy as np

from polyfm.core.posterior import Gaussians
from polyfm.files.values import Reader, Writer


def posterior_to_record(posteriors: list[Any], writer: Writer, prefix: str) -> list[dict]:
    """One record for each target."""
    return [_to_record(posterior, writer, f"{prefix}posterior{t}.") for t, posterior in enumerate(posteriors)]


def _to_record(posterior: Gaussians, writer: Writer, prefix: str) -> dict:
    names = ("coef", "intercept", "noise")
    record = {name: writer.array(prefix + name, getattr(posterior, name)) for name in names}
    factors = [writer.array(f"{prefix}factors{g}", V) for g, V in enumerate(posterior.factors)]
    return {"kind": "gaussians", "factors": factors, **record}


def restore_posterior(estimator: Any, records: list[dict], reader: Reader) -> None:
    """The posterior of an estimator whose model is restored."""
    targets = estimator._fitted.targets
    estimator._posterior = [_from_record(r, p, reader) for r, p in zip(records, targets, strict=True)]


def _from_record(record: dict, parameters: Any, reader: Reader) -> Gaussians:
    def positive(value: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = reader.value(value)
        if array.dtype.kind != "f" or array.shape != shape or not np.all(np.isfinite(array) & (array >= 0)):
            raise ValueError(f"variances that are not {shape} finite numbers >= 0")
        return array

    if record["kind"] != "gaussians":
        raise ValueError("a posterior of an unknown kind")
    factors = tuple(positive(v, P.shape) for v, P in zip(record["factors"], parameters.factors, strict=True))
    coef, intercept = positive(record["coef"], parameters.coef.shape), positive(record["intercept"], (1,))
    return Gaussians(factors, coef, intercept, positive(record["noise"], (1,)))
