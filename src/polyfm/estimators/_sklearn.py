"""Every import of a name that scikit-learn keeps private or has not always had, in one place."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, RealNotInt, StrOptions
from sklearn.utils._set_output import _get_output_config as output_config
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

try:  # callbacks came with scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing, where scikit-learn has no callbacks."""

    def with_callbacks(method):  # type: ignore[misc]
        return method


class FactsMixin:
    """Notebooks show `_facts_html()` above scikit-learn's own diagram of an estimator."""

    def _html_repr(self) -> str:  # what `_repr_html_` and `_repr_mimebundle_` ask for
        return self._facts_html() + super()._html_repr()  # type: ignore[misc]

    def _facts_html(self) -> str:
        return ""


__all__ = [
    "CallbackSupportMixin",
    "FactsMixin",
    "HasMethods",
    "Interval",
    "RealNotInt",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "output_config",
    "with_callbacks",
]
