"""What there is to say of a fitted estimator in a few lines, for people."""

import html
import unicodedata
from typing import Any

import numpy as np

from polyfm.solvers import SOLVERS
from polyfm.solvers.registry import INFERENCE

KERNELS = {"anova": "Factorization machine", "homogeneous": "Polynomial network"}
MOST_CLASSES = 5
JOINERS = "\u200c\u200d"  # invisible, but part of how Persian, Hindi and emoji are spelled


def escaped(value: object) -> str:
    """Any text, safe within HTML: marks of HTML are escaped, and what would steer or hide is made visible."""
    shown = "".join(c if c.isprintable() or c in JOINERS else _visible(c) for c in str(value))
    return html.escape(shown, quote=True)


def _visible(c: str) -> str:
    return " " if c in "\n\t" or unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode()


def brief(value: float) -> str:
    """A number of four digits, with commas: 1,234,567 or 0.001235."""
    if not np.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(value) < 1e15:
        digits = 0 if value == int(value) else max(0, 3 - int(np.floor(np.log10(abs(value)))))
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3g}"


def facts(estimator: Any) -> list[tuple[str, str]]:
    """Pairs of a word and what it is, most important first."""
    model = estimator._fitted.model
    group = model.groups[0]
    degrees = " and ".join(str(g.degree) for g in model.groups)
    bayesian = hasattr(estimator, "_posterior")
    kind = ("Bayesian " if bayesian else "") + KERNELS.get(group.form.kernel, group.form.kernel)
    kind = kind[0] + kind[1:].lower() if bayesian else kind
    found = [("Model", f"{kind} of degree {degrees}, {group.form.method}")]
    if hasattr(estimator, "classes_"):
        labels = [str(label) for label in estimator.classes_[:MOST_CLASSES]]
        more = len(estimator.classes_) - len(labels)
        found.append(("Classes", ", ".join(labels) + (f" and {more} more" if more else "")))
    bases = " + ".join(str(g.n_bases) for g in model.groups)
    sizes = [P.size for p in estimator._fitted.targets for P in p.factors]
    sizes += [p.coef.size for p in estimator._fitted.targets if model.fit_linear]
    found.append(("Size", f"{estimator.n_features_in_:,} features, rank {bases}, {sum(sizes):,} parameters"))
    found.append(("Loss", estimator.loss if isinstance(estimator.loss, str) else type(estimator.loss).__name__))
    penalties = [_penalty(estimator, name) for name in ("alpha", "beta") if hasattr(estimator, f"{name}_")]
    if penalties:
        found.append(("Penalties", ", ".join(penalties)))
    return found + _of_training(estimator) + _of_results(estimator)


def bound_of(history: dict[str, Any]) -> tuple[Any, str]:
    """What a Bayesian machine raises, and its name: a chain that starts without a bound has its log-likelihoods."""
    return (history["elbo"], "evidence bound") if "elbo" in history else (history["log_likelihood"], "log-likelihood")


def facts_html(estimator: Any) -> str:
    """The facts as a small table, for notebooks light and dark."""
    style = "border:0;padding:1px 14px 1px 0;text-align:left;background:none"
    rows = "".join(
        f'<tr style="background:none"><td style="{style};opacity:.65">{escaped(name)}</td>'
        f'<td style="{style}">{escaped(value)}</td></tr>'
        for name, value in facts(estimator)
    )
    return f'<table style="border:0;margin:0 0 6px;font-size:90%">{rows}</table>'


def _penalty(estimator: Any, name: str) -> str:
    value, groups = getattr(estimator, f"{name}_"), estimator._fitted.model.groups
    chosen = "" if not isinstance(getattr(estimator, name, "auto"), str) else " (chosen)"
    if np.ndim(value) == 0:
        return f"{name} {brief(float(value))}{chosen}"
    if len(value) == len(groups) and chosen:
        return f"{name} {', '.join(map(brief, value))} by degree{chosen}"
    return f"{name} {brief(float(np.min(value)))} to {brief(float(np.max(value)))} by feature"


def _of_training(estimator: Any) -> list[tuple[str, str]]:
    if not hasattr(estimator, "solver_"):
        return []
    known = (SOLVERS | INFERENCE).get(estimator.solver_)
    how = estimator.solver_ if known is None else f"{estimator.solver_} ({known.summary.split(':')[0]})"
    if hasattr(estimator, "n_iter_"):
        most = getattr(estimator, "_most_epochs", None)
        how += f", {estimator.n_iter_:,} epochs" + (", all that were allowed" if estimator.n_iter_ == most else "")
    if hasattr(estimator, "n_samples_seen_"):
        how += f", {estimator.n_samples_seen_:,} rows seen"
    return [("Training", how)]


def _of_results(estimator: Any) -> list[tuple[str, str]]:
    found = []
    if hasattr(estimator, "objective_"):
        bayesian = hasattr(estimator, "_posterior")
        name = {"gibbs": "Log-likelihood", "variational": "Evidence bound"}.get(getattr(estimator, "solver_", ""), "")
        name, sign = (name, -1.0) if bayesian else ("Objective", 1.0)
        found.append((name, brief(sign * estimator.objective_)))
    if hasattr(estimator, "duality_gap_"):
        found.append(("Duality gap", f"{brief(estimator.duality_gap_)} of the objective"))
    if hasattr(estimator, "best_score_"):
        found.append(("Cross-validated score", brief(float(estimator.best_score_))))
    if hasattr(estimator, "validation_losses_"):
        best = int(np.argmin(estimator.validation_losses_))
        found.append(("Held-out loss", f"{brief(float(estimator.validation_losses_[best]))} after epoch {best + 1}"))
    if hasattr(estimator, "effective_rank_"):
        found.append(("Effective rank", brief(estimator.effective_rank_)))
    if hasattr(estimator, "noise_"):
        found.append(("Noise", f"standard deviation {brief(estimator.noise_)}"))
    return found
