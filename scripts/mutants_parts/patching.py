"""Puts a changed text of a module into a running process: each function gets its code from the new text.

So a mutant needs no new process that imports everything again. This works if only the bodies of functions differ.
"""

from __future__ import annotations

import gc
from types import CodeType, FunctionType


def changed_functions(old: str, new: str) -> dict[CodeType, CodeType] | None:
    """Returns the new code for each function that differs, or None if the module differs outside of its functions."""
    found: dict[CodeType, CodeType] = {}
    same = _compare(compile(old, "old", "exec"), compile(new, "old", "exec"), found)
    return found if same else None


def _compare(old: CodeType, new: CodeType, found: dict[CodeType, CodeType]) -> bool:
    """Compares two pieces of code. Adds each function that differs to `found`. Returns whether all else is the same."""
    if len(old.co_consts) != len(new.co_consts) or old.co_code != new.co_code or old.co_names != new.co_names:
        return False
    for one, other in zip(old.co_consts, new.co_consts, strict=True):
        if not (isinstance(one, CodeType) and isinstance(other, CodeType)):
            if one != other:
                return False
        elif one.co_name != other.co_name:
            return False
        elif one.co_flags & 2 and one != other:  # the code of a function, and not of a class
            found[one] = other
        elif not one.co_flags & 2 and not _compare(one, other, found):
            return False
    return True


def patch(module: str, changed: dict[CodeType, CodeType]) -> bool:
    """Gives the functions of a module their new code. Returns whether each of these functions was found."""
    left = set(changed)
    gc.unfreeze()  # frozen objects are not listed
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__module__ == module and each.__code__ in changed:
            left.discard(each.__code__)
            each.__code__ = changed[each.__code__]
    return not left
