"""Every import of a name that scikit-learn keeps private, in one place."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = ["HasMethods", "Interval", "StrOptions", "check_sample_weight", "fit_context"]
