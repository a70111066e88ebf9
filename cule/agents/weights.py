"""The network alone, as a safetensors file that explains itself: for play, and for other programs.

The metadata of its header are texts: algorithm, game and version as they are; config (all options),
obs_shape, num_actions, steps and updates as JSON. To go on training takes a checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cule.agents.checkpoint import read_checkpoint, replace_file
from cule.errors import CheckpointError, MissingPackageError

SUFFIX = ".safetensors"

#: What of a checkpoint is metadata as JSON, and what it has to be.
_VALUES = {"config": dict, "obs_shape": list, "num_actions": int, "steps": int, "updates": int}


def can_write_weights() -> bool:
    """Whether safetensors is installed."""
    return importlib.util.find_spec("safetensors") is not None


def write_weights(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write the network of a checkpoint's content, whole or not at all.

    Args:
        path: Where to; the folder is made where it is missing. What is there is replaced.
        content: As for `write_checkpoint`; only what this module names is looked at.

    Raises:
        OSError: The disk does not take it; an older file of this name is as it was.
        MissingPackageError: safetensors is not installed.
    """
    _require_safetensors(path)
    from safetensors.torch import save

    texts = {name: json.dumps(content[name]) for name in _VALUES}
    texts |= {name: content[name] for name in ("algorithm", "version")}
    texts |= {"game": content["config"]["game"], "format": "pt"}
    # Tensors of such a file are contiguous, and share no memory.
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in content["network"].items()
    }
    data = save(tensors, texts)
    replace_file(path, lambda file: file.write(data))


def read_weights(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_weights` wrote, to the CPU: that part of a checkpoint's content.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: It holds no weights of cule, or is damaged.
        MissingPackageError: safetensors is not installed.
    """
    _require_safetensors(path)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            content = _explained(file.metadata() or {})
            content["network"] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} holds no weights of cule, or is damaged: {error}") from None
    return content


def read_to_play(path: Path) -> dict[str, Any]:
    """What `load_to_play` needs, of a checkpoint or, by its suffix, a file of weights.

    Raises:
        FileNotFoundError, CheckpointError, MissingPackageError: As the function that reads it.
    """
    return read_weights(path) if path.suffix == SUFFIX else read_checkpoint(path)


def _explained(texts: Mapping[str, str]) -> dict[str, Any]:
    """Metadata as they are in a checkpoint.

    Raises:
        ValueError: Some are missing, or are not what they should be.
    """
    missing = [name for name in ("algorithm", *_VALUES) if name not in texts]
    if missing:
        raise ValueError(f"its metadata have no {', '.join(missing)}")
    values = {name: json.loads(texts[name]) for name in _VALUES}
    for name, kind in _VALUES.items():
        if not isinstance(values[name], kind):
            raise ValueError(f"{name} of its metadata is {texts[name]}, no {kind.__name__}")
    return {"algorithm": texts["algorithm"], **values}


def _require_safetensors(path: str | os.PathLike[str]) -> None:
    if not can_write_weights():
        raise MissingPackageError(f"{path}: safetensors is needed; pip install 'cule[train]'")
