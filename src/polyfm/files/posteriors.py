"""The posterior of a Bayesian estimator as a record; read back with suspicion."""

from typing import Any

import numpy as np

from polyfm.core.posterior import Draws, Gaussians, Posterior
from polyfm.files.values import Reader, Writer


def posterior_to_record(posteriors: list[Any], writer: Writer, prefix: str) -> list[dict]:
    """One record for each target."""
    return [_to_record(posterior, writer, f"{prefix}posterior{t}.") for t, posterior in enumerate(posteriors)]


def _to_record(posterior: Posterior, writer: Writer, prefix: str) -> dict:
    names = ("coef", "intercept", "noise")
    record = {name: writer.array(prefix + name, getattr(posterior, name)) for name in names}
    if posterior.cuts is not None:
        record["cuts"] = writer.array(f"{prefix}cuts", posterior.cuts)
    if isinstance(posterior, Draws):
        return {"kind": "draws", **record}
    factors = [writer.array(f"{prefix}factors{g}", V) for g, V in enumerate(posterior.factors)]
    return {"kind": "gaussians", "factors": factors, **record}


def restore_posterior(estimator: Any, records: list[dict], reader: Reader) -> None:
    """The posterior of an estimator whose model is restored."""
    targets = estimator._fitted.targets
    estimator._posterior = [_from_record(r, p, reader) for r, p in zip(records, targets, strict=True)]
    n_cuts = len(estimator.classes_) - 1 if estimator._likelihood == "ordered" else 0
    if any((0 if p.cuts is None else p.cuts.shape[-1]) != n_cuts for p in estimator._posterior):
        raise ValueError("cut points that are not those between the classes")


def _cuts(record: dict, reader: Reader, *shape: int) -> np.ndarray | None:
    """Cut points that rise, for each draw where there are draws."""
    if "cuts" not in record:
        return None
    cuts = reader.value(record["cuts"])
    if cuts.dtype.kind != "f" or cuts.ndim != len(shape) + 1 or cuts.shape[:-1] != shape or not cuts.shape[-1]:
        raise ValueError("cut points of another kind")
    if not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) < 0):
        raise ValueError("cut points that do not rise")
    return cuts


def _from_record(record: dict, parameters: Any, reader: Reader) -> Posterior:
    def finite(value: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = reader.value(value)
        if array.dtype.kind != "f" or array.shape != shape or not np.all(np.isfinite(array)):
            raise ValueError(f"what is known of the parameters is not {shape} finite numbers")
        return array

    def positive(value: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = finite(value, shape)
        if array.min(initial=0.0) < 0:
            raise ValueError("variances that are less than 0")
        return array

    if record["kind"] == "draws":
        noise = reader.value(record["noise"])
        if noise.ndim != 1 or noise.dtype.kind != "f" or not len(noise) or not np.all(np.isfinite(noise) & (noise > 0)):
            raise ValueError("draws without noise")
        if any(len(lams) % len(noise) for lams in parameters.lambdas):
            raise ValueError("bases that are not those of so many draws")
        coef, intercept = (
            finite(record["coef"], (len(noise), len(parameters.coef))),
            finite(record["intercept"], noise.shape),
        )
        return Draws(coef, intercept, noise, _cuts(record, reader, len(noise)))
    if record["kind"] != "gaussians":
        raise ValueError("a posterior of an unknown kind")
    factors = tuple(positive(v, P.shape) for v, P in zip(record["factors"], parameters.factors, strict=True))
    coef, intercept = positive(record["coef"], parameters.coef.shape), positive(record["intercept"], (1,))
    return Gaussians(factors, coef, intercept, positive(record["noise"], (1,)), _cuts(record, reader))
