"""Load checkpoints into backbones, with an error that lists everything that does not fit."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from cophenet._common.limits import TooLargeError
from cophenet._common.packages import import_optional
from cophenet._common.pickles import load_torch
from cophenet.models.base import Backbone

__all__ = ["load_weights", "read_state"]

_SHOWN = 5


def load_weights(backbone: Backbone, path: str | Path) -> tuple[str, ...]:
    """Load a checkpoint into a backbone; every parameter must fit.

    Args:
        backbone: The backbone whose parameters are set.
        path: A file of named tensors: torch (.pth, .pt) or .safetensors.

    Returns:
        Names of the parameters that were not loaded: those of the checkpoint's own classifier.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a file of named tensors, or parameters are missing, unknown or of another
            shape; the message lists them.

    Example:
        >>> import tempfile, torch
        >>> from cophenet.models import create_backbone
        >>> net = create_backbone("resnet10-w8", input_shape=(1, 8, 8), stem="cifar")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "net.pth")
        ...     torch.save({**net.state_dict(), "fc.weight": torch.zeros(10, 64)}, file)
        ...     load_weights(net, file)
        ('fc.weight',)
    """
    state = read_state(path)
    left_out = tuple(name for name in state if name.startswith(backbone.classifier))
    state = backbone.adapt({name: values for name, values in state.items() if name not in left_out})
    own = backbone.holder.state_dict()
    # Files from before 2018 lack these counters, which do not affect the output.
    state = {**{name: own[name] for name in own if name.endswith("num_batches_tracked")}, **state}
    misfits = _misfits(backbone, state, own)
    if misfits:
        raise ValueError("\n  ".join([f"weights {path} do not fit the backbone:", *misfits]))
    backbone.holder.load_state_dict(state)
    return left_out


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read the named tensors of a file; nothing in it is executed.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a file of named tensors.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"weights not found: {path}")
    state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if not isinstance(state, dict) or not state:
        raise ValueError(f"weights {path} must hold named tensors, got {type(state).__name__}")
    for name, values in state.items():
        if not isinstance(name, str) or not isinstance(values, Tensor):
            raise ValueError(
                f"weights {path} must hold named tensors only, got {type(values).__name__} at {name!r}; "
                "save the state_dict of the backbone alone"
            )
    return dict(state)


def _read_torch(path: Path) -> object:
    try:
        return load_torch(path)
    except MemoryError:
        raise
    except Exception as error:  # foreign and damaged files may fail in any way
        raise ValueError(
            f"weights {path} are no file of tensors that torch can read{_reason(error)}; "
            "give a state_dict that torch.save wrote, or a .safetensors file"
        ) from None  # torch suggests to load such a file with weights_only=False


def _reason(error: Exception) -> str:
    """Why the system refused a file; other errors are about the reader, not the file."""
    if isinstance(error, OSError) and error.strerror:
        return f" ({error.strerror})"
    if isinstance(error, TooLargeError):
        return f" ({error})"
    return ", it is damaged or holds something else"


def _read_safetensors(path: Path) -> object:
    safetensors = import_optional("safetensors.torch", f"reading {path} needs", "cophenet[data]")
    try:
        state: object = safetensors.torch.load_file(path)
        return state
    except Exception as error:  # foreign and damaged files may fail in any way
        raise ValueError(f"weights {path} are no safetensors file{_reason(error)}") from error


def _misfits(backbone: Backbone, state: dict[str, Tensor], own: dict[str, Tensor]) -> list[str]:
    """One line per kind of misfit, and advice for known ones."""
    wrong = [name for name in own if name in state and own[name].shape != state[name].shape]
    shapes = [f"{name} is {tuple(state[name].shape)}, needs {tuple(own[name].shape)}" for name in wrong]
    kinds = {
        "missing": [name for name in own if name not in state],
        "unexpected": [name for name in state if name not in own],
        "wrong shape": shapes,
    }
    lines = [f"{kind} ({len(names)}): {_listed(names)}" for kind, names in kinds.items() if names]
    return lines + [f"{name}: {backbone.advice[name]}" for name in wrong if name in backbone.advice]


def _listed(items: list[str]) -> str:
    rest = len(items) - _SHOWN
    return "; ".join(items[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
