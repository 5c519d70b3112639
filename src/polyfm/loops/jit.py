"""All that is particular to numba: compiling loops, and giving named tuples methods. `cache` keeps them on disk.

Three ideas carry the whole package:

- A *loop* is a function compiled lazily, without the GIL, and cached on disk.
- A named tuple that is ``compiled`` has methods inside loops too. Loops specialise on its type, so that its methods
  are inlined: a loss or a form is a parameter of one loop and costs nothing.
- ``at(array, i, default)`` reads an array or, where ``None`` was passed, gives the default. The choice is made when
  the loop is compiled, so one loop serves binary, weighted, dense and sparse data without a branch.
"""

import gc
import inspect
import operator
import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from numba import extending, njit, types
from numba.core.typing.templates import AbstractTemplate, infer, infer_global

from polyfm.loops.cache import enable_cache

# No "nnan" or "ninf": a non-finite value must stay visible. Reductions may be reordered, so that they vectorise.
STREAMING = {"reassoc", "contract", "arcp", "nsz"}

LANES = 8  # loops over a multiple of this many numbers vectorise without a remainder
PART: Any = {"no_cfunc_wrapper": True}  # what only loops call needs no door for C: a sixth of the time to compile it
inline = extending.register_jitable(**PART)
always_inline = extending.register_jitable(forceinline=True, **PART)  # a call would keep loops from becoming vectors
overload = partial(extending.overload, jit_options=PART)
WRITTEN_OUT = {"noise"}  # methods of which the same is true


def instructions_for(function: Callable) -> Callable:
    """Compile calls of a function to instructions where they stand (decorates what makes them, as numba's `intrinsic`
    does). What is compiled as a function of its own takes some 30 ms for each combination of types, however short."""

    def register(definition: Callable) -> Callable:
        made: dict[tuple, Callable] = {}

        class Template(AbstractTemplate):
            key = function

            def generic(self, args, kws):
                found = definition(self.context, *args)
                if found is None:
                    return None
                signature, generate = found
                if signature.args not in made:
                    made[signature.args] = extending.lower_builtin(generate, *signature.args)(generate)
                return signature

            def get_impl_key(self, signature):
                return made[signature.args]

        infer(Template)
        infer_global(function, types.Function(Template))
        return definition

    return register


def at(array, i, default):
    """``array[i]``, or `default` where there is no array."""
    return default if array is None else array[i]


@instructions_for(at)
def _at(typing, array, i, default):
    if isinstance(array, types.NoneType):
        return default(array, i, default), lambda context, builder, signature, arguments: arguments[2]
    getitem = typing.resolve_value_type(operator.getitem)
    item = getitem.get_call_type(typing, (array, i), {})

    def generate(context, builder, signature, arguments):
        given = zip(arguments[:2], (array, i), item.args, strict=True)
        return context.get_function(getitem, item)(builder, [context.cast(builder, *each) for each in given])

    return item.return_type(array, i, default), generate


_known_to_loops: set[str] = set()


def compiled(cls: type) -> type:
    """Make the public methods of a named tuple callable inside loops (a class decorator)."""
    for name, member in vars(cls).items():
        if inspect.isfunction(member) and not name.startswith("_") and name not in _known_to_loops:
            _known_to_loops.add(name)
            _teach_numba(name, member)
    cls._compiled_methods = True  # type: ignore[attr-defined]
    return cls


def _teach_numba(name: str, member: Callable) -> None:
    """Have numba look a method of this name up on the class of the named tuple at hand."""

    # Not strict: another class may call the arguments by other names; their number is what counts.
    inlining: Any = "always" if name in WRITTEN_OUT else "never"

    @extending.overload_method(types.BaseNamedTuple, name, jit_options=PART, inline=inlining, strict=False)  # type: ignore[call-arg]
    @wraps(member)
    def method(self, *args):
        if hasattr(self.instance_class, "_compiled_methods"):
            return getattr(self.instance_class, name)
        return None


def without_collecting(compile: Callable) -> Callable:
    """A compiler makes millions of objects: to look for garbage among them takes a sixth of the time while it works,
    and some more when it is done. So what is left goes to the old objects, which are looked through when they have
    grown by a quarter."""

    @wraps(compile)
    def compile_without(*args, **kwargs):
        if not gc.isenabled():
            return compile(*args, **kwargs)
        gc.disable()
        try:
            return compile(*args, **kwargs)
        finally:
            if not gc.get_freeze_count():  # else somebody else has frozen objects, who are to stay so
                gc.freeze()
                gc.unfreeze()
            gc.enable()

    return compile_without


def loop(function: Callable | None = None, *, streaming: bool = False, allocates: bool = True) -> Callable:
    """Compile `function` on first call; `streaming` loops run over contiguous memory and may reorder sums. One that
    makes no arrays has no references to count, and calls nothing: where rows are short, that is most of the work."""
    if function is None:
        return lambda function: loop(function, streaming=streaming, allocates=allocates)
    options: dict[str, Any] = {"_nrt": allocates, "forceinline": not allocates, "no_cfunc_wrapper": True}
    dispatcher = njit(nogil=True, error_model="numpy", fastmath=STREAMING if streaming else False, **options)(function)
    if not hasattr(dispatcher, "py_func"):  # numba is switched off
        return dispatcher
    dispatcher.compile = without_collecting(dispatcher.compile)
    if os.environ.get("POLYFM_CACHE", "1") != "0":
        enable_cache(dispatcher, "streaming" if streaming else "gathering")
    return dispatcher
