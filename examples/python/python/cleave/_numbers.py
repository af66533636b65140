# SPDX-License-Identifier: MIT
"""Checks of numbers that users pass."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .errors import OptionError

most_bytes = 2**63 - 1


def whole(given: object, name: str, least: int, most: int) -> int:
    try:
        number = operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {given!r}; expected a whole number") from None
    if not least <= number <= most:
        raise OptionError(f"{name} is {number}; expected {least} to {most}", option=name, where=0)
    return number


def real(given: Any, name: str, most: float) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {given!r}; expected a number") from None
    if not 0 <= number <= most:  # NaN too
        raise OptionError(f"{name} is {number}; expected 0 to {most:g}", option=name, where=0)
    return number


def wholes(given: Any, name: str, least: int, most: int) -> list[int]:
    """Returns one number, or each of several, as a list."""
    return [whole(x, name, least, most) for x in _listed(given)]


def reals(given: Any, name: str, most: float) -> list[float]:
    """Returns one number, or each of several, as a list."""
    return [real(x, name, most) for x in _listed(given)]


def _listed(given: Any) -> Sequence[Any]:
    if getattr(given, "ndim", 0) == 1:
        return given.tolist()  # type: ignore[no-any-return]
    return given if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else [given]
