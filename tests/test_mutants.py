"""If a mutant changes only functions, it is put into a running process. Any other mutant needs a new process."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).parent.parent / "scripts"))
from mutants_parts.patching import changed_functions, patch

SOUND = """
LIMIT = 3

def fits(number):
    return number < LIMIT

class Box:
    def fits(self, number):
        return any(number < each for each in (1, 2))
"""


def module_of(text: str) -> ModuleType:
    made = ModuleType("sound")
    exec(compile(text, "sound.py", "exec"), made.__dict__)
    return made


def test_functions_get_their_changed_code() -> None:
    module = module_of(SOUND)
    fits, box = module.fits, module.Box()
    changed = changed_functions(SOUND, SOUND.replace("number < LIMIT", "number <= LIMIT").replace("< each", "> each"))
    assert changed is not None
    assert (fits(3), box.fits(0)) == (False, True)
    assert patch("sound", changed)
    assert (fits(3), box.fits(0)) == (True, False)


def test_a_change_outside_of_functions_needs_a_new_process() -> None:
    assert changed_functions(SOUND, SOUND.replace("LIMIT = 3", "LIMIT = 4")) is None


def test_a_function_that_is_not_there_is_told() -> None:
    changed = changed_functions(SOUND, SOUND.replace("number < LIMIT", "True"))
    assert changed is not None
    assert not patch("sound", changed)
