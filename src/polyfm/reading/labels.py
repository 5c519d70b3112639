"""Names of features, short enough for a picture and still distinct."""

from collections.abc import Iterable

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """For each name, one of at most `width` characters where that tells it from the others, longer where not.

    What a ``ColumnTransformer`` puts before a name goes first, then the middle.

    >>> short_names(["onehot__sex_F", "scale__length", "scale__weight of the shucked animal"], 12)
    {'onehot__sex_F': 'sex_F', 'scale__length': 'length', 'scale__weight of the shucked animal': 'weight…nimal'}
    """
    names = list(dict.fromkeys(names))
    short = {name: name.partition("__")[2] or name for name in names}
    if len(set(short.values())) < len(names):
        short = {name: name for name in names}
    longest = max(map(len, short.values()), default=0)
    while width < longest:
        cut = {name: _cut(own, width) for name, own in short.items()}
        if len(set(cut.values())) == len(names):
            return cut
        width += 4
    return short


def _cut(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return name[: width - 1 - end] + ELLIPSIS + name[len(name) - end :]
