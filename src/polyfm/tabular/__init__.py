"""Tables to features: a scikit-learn transformer for columns of text, categories, numbers and dates, with gaps."""

from polyfm.tabular.encoder import TableEncoder

__all__ = ["TableEncoder"]
