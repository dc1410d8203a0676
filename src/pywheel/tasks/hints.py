"""The parameters of a function, and their types."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ..jobs.checks import signature


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function, whether or not their types can be found."""
    return signature(function).parameters


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function by name; instead of one that cannot be resolved, the error.

    A type that is only imported under TYPE_CHECKING cannot be resolved. That matters only where the type is needed.
    """
    function = _annotated(function)
    found: dict[str, Any] = {}
    for name, annotation in _annotations(function).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        try:
            found |= get_type_hints(alone, getattr(function, "__globals__", {}), include_extras=True)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            found[name] = error
    return found


def bare(annotation: Any) -> Any:
    """Return T for ``T | None`` and ``Annotated[T, ...]``, and anything else unchanged."""
    while True:
        origin, parts = get_origin(annotation), get_args(annotation)
        some = [part for part in parts if part is not NoneType]
        if origin is Annotated or (origin in (Union, UnionType) and len(some) == 1):
            annotation = some[0]
        else:
            return annotation


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the annotations: the function of a partial, the method of an object."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if isinstance(function, type) or hasattr(function, "__globals__"):
        return function
    method: Callable[..., Any] = inspect.unwrap(type(function).__call__)
    return method


def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.FORWARDREF)
    return getattr(function, "__annotations__", {})
