"""The network alone, as a self-describing safetensors file: for playing, and for other programs.

The metadata of the header are texts: algorithm, game and version as they are; config (all options),
obs_shape, num_actions, steps and updates as JSON; crc32 is that of the file with zeros in its
place. Training continues from checkpoints only.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import torch

from cule.agents.run.checkpoint import (
    POLICY_TYPES,
    WEIGHTS_SUFFIX,
    PolicyState,
    checked_policy,
    read_checkpoint,
)
from cule.errors import CheckpointError, MissingPackageError
from cule.files import replace_bytes
from cule.reading import parse_json, read_file

#: Entries of the metadata that are JSON.
_JSON_NAMES = [name for name in POLICY_TYPES if name not in ("algorithm", "version", "network")]

#: The checksum in the header, and its placeholder while the checksum is computed.
_SUM = re.compile(rb'"crc32" ?: ?"([0-9a-f]{8})"')
_NO_SUM = "0" * 8


def can_write_weights() -> bool:
    """Whether safetensors is installed."""
    return importlib.util.find_spec("safetensors") is not None


def write_weights(path: str | os.PathLike[str], state: PolicyState) -> None:
    """Write a file of weights, replacing an existing one."""
    _require_safetensors(path)
    from safetensors.torch import save

    values: Mapping[str, object] = {**state}
    texts = {name: json.dumps(values[name]) for name in _JSON_NAMES}
    texts |= {"algorithm": state["algorithm"], "version": state["version"]}
    texts |= {"game": str(state["config"]["game"]), "format": "pt", "crc32": _NO_SUM}
    # safetensors takes contiguous tensors that share no memory.
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in state["network"].items()
    }
    data = save(tensors, texts)
    found = _SUM.search(data)
    assert found is not None
    data = b"%b%08x%b" % (data[: found.start(1)], zlib.crc32(data), data[found.end(1) :])
    replace_bytes(path, data)


def read_weights(path: str | os.PathLike[str]) -> PolicyState:
    """Read a file of weights to the CPU."""
    _require_safetensors(path)
    from safetensors import SafetensorError, safe_open

    try:
        data = read_file(path)  # refuses what is no regular file
        with safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            values = _parse_metadata(texts)
            _check_sum(data, texts)
            values["network"] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} holds no weights of cule, or is damaged: {error}") from None
    return checked_policy(path, values)


def read_to_play(path: Path) -> PolicyState:
    """Read a checkpoint or, by its suffix, a file of weights."""
    return read_weights(path) if path.suffix == WEIGHTS_SUFFIX else read_checkpoint(path)


def _parse_metadata(texts: Mapping[str, str]) -> dict[str, object]:
    """The values of metadata; a ValueError if some are missing."""
    missing = [name for name in ("algorithm", "version", *_JSON_NAMES) if name not in texts]
    if missing:
        raise ValueError(f"its metadata have no {', '.join(missing)}")
    values: dict[str, object] = {name: parse_json(texts[name]) for name in _JSON_NAMES}
    return {"algorithm": texts["algorithm"], "version": texts["version"], **values}


def _check_sum(data: bytes, texts: Mapping[str, str]) -> None:
    """Compare the checksum, which files of cule 0.2.0 do not have; a ValueError if it is wrong."""
    unknown = texts.keys() - {"algorithm", "version", "game", "format", "crc32", *_JSON_NAMES}
    if unknown:
        raise ValueError(f"its metadata have {', '.join(sorted(unknown))}, which nothing here has")
    found = _SUM.search(data)
    if "crc32" not in texts and found is None:
        return
    if found is None:
        raise ValueError("its checksum is not a number")
    plain = b"%b%b%b" % (data[: found.start(1)], _NO_SUM.encode(), data[found.end(1) :])
    if found[1] != b"%08x" % zlib.crc32(plain):
        raise ValueError("its checksum is not that of its content")


def _require_safetensors(path: str | os.PathLike[str]) -> None:
    if not can_write_weights():
        raise MissingPackageError(f"{path}: safetensors is needed; pip install 'cule[train]'")
