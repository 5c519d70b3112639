"""Every import of a name that scikit-learn keeps private or has not always had, in one place."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils._param_validation import HasMethods, Interval, RealNotInt, StrOptions
from sklearn.utils._set_output import _get_output_config as output_config
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn says nothing of types: its decorators leave signatures as they are

    class CallbackSupportMixin: ...

    def with_callbacks(method: F) -> F: ...
    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[F], F]: ...
    def available_if(check: Callable[[Any], bool]) -> Callable[[F], F]: ...
else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils.metaestimators import available_if

    try:  # callbacks came with scikit-learn 1.9
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class CallbackSupportMixin:
            """Nothing, where scikit-learn has no callbacks."""

        def with_callbacks(method):
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
    "available_if",
    "check_sample_weight",
    "fit_context",
    "output_config",
    "with_callbacks",
]
