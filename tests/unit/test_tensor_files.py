"""Files of tensors: a bit that flips anywhere is noticed, and torch reads them as they are."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule.errors import CheckpointError  # noqa: E402
from cule.tensor_files import load_tensors, save_tensors  # noqa: E402


def content() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    return {
        "weights": torch.rand(40, generator=generator),
        "bytes": torch.arange(3, dtype=torch.uint8),
        "nothing": torch.zeros(0),
        "steps": 12,
        "names": ["a", "b"],
    }


def assert_same(found: Any, expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(found[name], value), name
        else:
            assert found[name] == value


@pytest.mark.parametrize("mmap", [False, True])
def test_what_was_saved_is_loaded(tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "a.pt"
    save_tensors(path, content())
    assert_same(load_tensors(path, mmap=mmap), content())


def test_other_programs_read_them(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_tensors(path, content())
    for mmap in (False, True):
        assert_same(torch.load(path, weights_only=True, mmap=mmap), content())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert re.fullmatch(rb"cule-crc32:[0-9a-f]{8}", archive.comment)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_tensors(path, content())
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged"):
            load_tensors(path)


def test_files_cut_short_or_longer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_tensors(path, content())
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for length in (0, 1, 18, 19, 22, len(whole) - 1, *random.integers(len(whole), size=30)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            load_tensors(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match="damaged"):
        load_tensors(path)


def test_files_of_torch_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(content(), path)
    assert_same(load_tensors(path), content())


def test_code_is_not_run(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return Path.write_text, (tmp_path / "ran", "x")

    path = tmp_path / "a.pt"
    for save in (save_tensors, lambda path, content: torch.save(content, path)):
        save(path, {"weights": Harmful()})
        with pytest.raises(CheckpointError):
            load_tensors(path)
        assert not (tmp_path / "ran").exists()
