"""How a network reads rows of any kind: as a tensor, or as several by name; and random changes of images."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, as_rows, count, sample_x
from consilience.tasks.protocol import Array

HALF_PRECISION = (torch.float16, torch.bfloat16)
Inputs = Tensor | dict[str, Tensor]
"""What a model is called with: one tensor, or keyword arguments such as `input_ids` and `attention_mask`."""


def for_network(who: str, rows: Rows, floats: bool = False) -> Inputs:
    """Rows as tensors: fractions in single precision, whole numbers as they are or, with `floats`, as fractions."""
    rows = as_rows(rows)
    if isinstance(rows, Mapping):
        return {name: _tensor(who, values, floats=False) for name, values in rows.items()}
    if hasattr(rows, "column_names"):
        return {name: _tensor(who, np.asarray(rows.with_format(None)[name][:]), False) for name in rows.column_names}
    if isinstance(rows, torch.utils.data.Dataset):
        collated = torch.utils.data.default_collate([sample_x(rows[number]) for number in range(count(rows))])
        return for_network(who, collated, floats)
    return _tensor(who, rows, floats)


def _tensor(who: str, rows: Rows, floats: bool) -> Tensor:
    if hasattr(rows, "tocsr"):
        rows = rows.toarray()
    if hasattr(rows, "iloc"):
        rows = _numbers(who, rows)
    if isinstance(rows, Tensor):
        tensor = rows.detach().cpu()
    else:
        array = np.asarray(rows) if not isinstance(rows, list) else np.array(rows, dtype=object)
        if array.dtype.kind not in "biuf":
            what = "texts" if isinstance(next(iter(rows), None), str) else f"a {type(rows).__name__}"
            raise ConsilienceError(
                f"{who}: a network takes numbers, not {what}. Give the agent a transform that makes tensors of raw "
                "rows, such as a tokeniser."
            )
        array = np.ascontiguousarray(array)
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    if tensor.ndim == 4 and tensor.shape[1] > 1:
        tensor = tensor.contiguous(memory_format=torch.channels_last)  # colour images: faster convolutions
    return tensor.float() if tensor.is_floating_point() or floats else tensor.long()


def _numbers(who: str, table: Any) -> Array:
    columns = table.columns if table.ndim == 2 else [table.name]
    words = [c for c in columns if (table[c] if table.ndim == 2 else table).dtype.kind not in "biuf"]
    if words or table.isna().to_numpy().any():
        what = f"words, dates or categories in the column {words[0]!r}" if words else "missing values"
        raise ConsilienceError(
            f"{who}: a network takes numbers, and the table has {what}. Give the agent a transform, such as "
            "that of a fitted ColumnTransformer."
        )
    return np.asarray(table.to_numpy(np.float32))


def size(inputs: Inputs) -> int:
    """How many rows."""
    return len(next(iter(inputs.values())) if isinstance(inputs, dict) else inputs)


def picked(inputs: Inputs, rows: "Tensor | slice") -> Inputs:
    """Some rows."""
    return {name: tensor[rows] for name, tensor in inputs.items()} if isinstance(inputs, dict) else inputs[rows]


def in_batches(inputs: Inputs) -> Iterator[Inputs]:
    """What a network predicts at once: more images would not fit into the processor's cache."""
    tensors = inputs.values() if isinstance(inputs, dict) else [inputs]
    step = 1024 if sum(tensor[:1].numel() for tensor in tensors) < 1000 else 256
    return (picked(inputs, slice(start, start + step)) for start in range(0, max(1, size(inputs)), step))


def on(inputs: Inputs, device: torch.device) -> Inputs:
    """The same on a device."""
    if isinstance(inputs, dict):
        return {name: tensor.to(device) for name, tensor in inputs.items()}
    return inputs.to(device)


def called(model: Callable[..., Any], inputs: Inputs) -> Any:
    """The output of the model: what it returns, or the `logits` in that, as Hugging Face models have it."""
    out = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return getattr(out, "logits", out)


def single_precision(out: Tensor) -> Tensor:
    """`out` in single precision where it is in half, so that probabilities sum to one and losses are not rounded."""
    return out.float() if out.dtype in HALF_PRECISION else out


def placed(who: str, model: nn.Module, device: str) -> tuple[nn.Module, torch.device]:
    """The model on the named device; an error where there is no such device, or the model has no weights.

    >>> placed("agent 'a'", nn.Linear(2, 2), "cpu")[1]
    device(type='cpu')
    """
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise ConsilienceError(
            f"{who}: its model is on the meta device, which holds no weights. Make it on the CPU, or fill it first: "
            "model.to_empty(device='cpu'), then model.load_state_dict(...)."
        )
    try:
        target = torch.device(device)
    except RuntimeError:
        raise ConsilienceError(f"{who}: device is {device!r}; use cpu, cuda, cuda:1 (the second GPU) or mps.") from None
    try:
        if target.type != "meta":
            return model.to(target), target
        reason = "it holds no weights"
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
    raise ConsilienceError(f"{who}: the device {device!r} cannot be used here ({reason}). Use device='cpu'.")


def fixed_part(model: nn.Module) -> nn.Module | None:
    """The model's first layer, if its attribute `fixed` is true: nothing in it is learned or random.

    It returns its own output unchanged when that is its input.
    """
    first = next(model.children(), None)
    return first if getattr(first, "fixed", False) else None


def through(layer: nn.Module, inputs: Inputs) -> Inputs:
    """The output of a fixed layer for all rows."""
    with torch.no_grad():
        return torch.cat([called(layer, batch) for batch in in_batches(inputs)])


def described(inputs: Inputs) -> str:
    """Shapes of a sample, for messages."""
    tensors = inputs if isinstance(inputs, dict) else {"": inputs}
    return ", ".join(f"{name} {tuple(t.shape[1:])} {str(t.dtype)[6:]}".strip() for name, t in tensors.items())


@contextmanager
def lone_sample(model: nn.Module, samples: int) -> Iterator[None]:
    """Batch norm cannot normalise a single value by itself: for a lone sample it then uses its running statistics."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)] if samples == 1 else []

    def rest(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        layer.train(inputs[0].numel() > inputs[0].shape[1])

    handles = [norm.register_forward_pre_hook(rest) for norm in norms if norm.training]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for norm in norms:
            norm.train()


def crop_flip(images: Inputs) -> Inputs:
    """Every image (channels, height, width) moved by up to an eighth of its side, with zeros at the edge, and every
    second one mirrored.
    """
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise ConsilienceError("augment is 'crop-flip', which is for images (channels, height, width). Use 'none'.")
    samples, _, height, width = images.shape
    edge = max(height, width) // 8
    down, right = torch.randint(0, 2 * edge + 1, (2, samples, 1))
    mirrored = torch.rand(samples, 1) < 0.5
    rows = down + torch.arange(height)
    columns = right + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    padded = functional.pad(images, (edge, edge, edge, edge)).permute(0, 2, 3, 1)
    number = torch.arange(samples)[:, None, None]
    indices = (index.to(images.device) for index in (number, rows[:, :, None], columns[:, None, :]))
    return padded[tuple(indices)].permute(0, 3, 1, 2)


AUGMENTATIONS: dict[str, Callable[[Inputs], Inputs] | None] = {"none": None, "crop-flip": crop_flip}


def augmentation(name: str) -> Callable[[Inputs], Inputs] | None:
    """The change of this name."""
    if name not in AUGMENTATIONS:
        raise ConsilienceError(f"unknown augmentation {name!r}. Known: {', '.join(AUGMENTATIONS)}.")
    return AUGMENTATIONS[name]
