"""Mutants are made of code alone, and a changed comparison is noticed. ``run.py`` does it at large."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.mutants import FOLDERS, ROOT, all_mutants, sample
from tests.mutation.run import Runner, parity_programs

MUTANTS = all_mutants()


def test_mutants_of_every_header() -> None:
    headers = {
        path.relative_to(ROOT / "csrc").as_posix()
        for folder in FOLDERS
        for path in (ROOT / "csrc" / folder).glob("*.hpp")
    }
    assert {mutant.file for mutant in MUTANTS} == headers
    assert len(set(MUTANTS)) == len(MUTANTS)


def test_a_mutant_changes_one_line() -> None:
    for mutant in MUTANTS[::50]:
        text = (ROOT / "csrc" / mutant.file).read_text()
        lines = zip(text.split("\n"), mutant.apply(text).split("\n"), strict=True)
        changed = [number for number, (old, new) in enumerate(lines, 1) if old != new]
        assert changed == [mutant.line]
    with pytest.raises(ValueError, match="is not in"):
        replace(MUTANTS[0], line=1, old="nothing").apply("one line")


def test_a_sample_has_mutants_of_each_chip() -> None:
    drawn = sample(MUTANTS, FOLDERS, 30, seed=0)
    assert Counter(m.file.partition("/")[0] for m in drawn) == dict.fromkeys(FOLDERS, 10)
    assert drawn == sample(MUTANTS, FOLDERS, 400, seed=0)[:30]
    assert drawn != sample(MUTANTS, FOLDERS, 30, seed=1)
    of_riot = [mutant for mutant in MUTANTS if mutant.file.startswith("riot/")]
    assert set(sample(MUTANTS, FOLDERS, 400, seed=0)) > set(of_riot)
    assert set(sample(MUTANTS, ["riot"], 400, seed=0)) == set(of_riot)


@pytest.mark.slow
def test_a_mutant_is_killed(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    runner = Runner(tmp_path, compiler, parity_programs(tmp_path, per_kind=1, plain=1)[:3])
    mutant = next(m for m in MUTANTS if m.file == "riot/timer.hpp" and m.old == "-")
    assert runner.verdict_of(mutant)[0] == "killed"
    assert runner.verdict_of(replace(mutant, new=mutant.old)) == ("survived", "")
    assert runner.verdict_of(replace(mutant, new="no operator")) == ("invalid", "")
