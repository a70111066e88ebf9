"""The native module: classes without objects, and interpreters it cannot be imported in."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from cule import _core

CLASSES = [value for value in vars(_core).values() if isinstance(value, type)]
BOUND = [value for value in CLASSES if not issubclass(value, BaseException)]


@pytest.mark.parametrize("bound", BOUND, ids=lambda bound: bound.__name__)
def test_no_object_without_a_value(bound: type) -> None:
    with pytest.raises(TypeError, match="call the class"):
        bound.__new__(bound)


def test_copies_without_a_value() -> None:
    with pytest.raises(TypeError):
        copy.copy(_core.BatchOptions())
    for copied in (
        copy.deepcopy(_core.Autoreset.SameStep),
        pickle.loads(pickle.dumps(_core.Autoreset.SameStep)),
    ):
        assert copied == _core.Autoreset.SameStep


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
    new = lambda: interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    new = lambda: interpreters.create(isolated=False)
code = '''
import warnings
warnings.simplefilter("ignore")
try:
    import cule
except ImportError as error:
    print(error, flush=True)
'''
interpreters.run_string(new(), code)
"""


def test_a_subinterpreter_is_refused() -> None:
    command = [sys.executable, "-c", SUBINTERPRETER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "cule cannot be used in a subinterpreter" in done.stdout, done.stderr
