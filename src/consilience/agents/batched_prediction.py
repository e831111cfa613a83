"""Predictions of many agents for the same rows: small models of one architecture predict as one computation.

What an agent predicts does not depend on who else is in the batch, to the bit. Among few agents it is also what its own
`predict` gives; among many, the first layers of a batch are one matrix product, whose last bits may differ from that.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from consilience.agents.batch_plan import MANY, flat_rows
from consilience.agents.batched import architecture, stackable
from consilience.agents.protocol import Agent
from consilience.agents.tensors import in_batches
from consilience.agents.torch_agent import TorchAgent
from consilience.agents.unreadable import explained
from consilience.base.rows import Rows
from consilience.tasks.protocol import Array

TOGETHER = 32
"""Models in one batch. Smaller batches are padded to this number, so that no bit depends on it."""


def predict_all(agents: Sequence[Agent], rows: Rows, among: int) -> Iterator[tuple[Agent, Array]]:
    """What every agent predicts for `rows`, in any order, a batch at a time, in a run of `among` agents."""
    alike: dict[object, list[tuple[Agent, TorchAgent]]] = {}
    for agent in agents:
        network = _plain(agent)
        if network is None:
            yield agent, agent.predict(rows)
        else:
            alike.setdefault(architecture(network), []).append((agent, network))
    for same in alike.values():
        for start in range(0, len(same), TOGETHER):
            batch = same[start : start + TOGETHER]
            yield from zip(
                [agent for agent, _ in batch], _predicted([n for _, n in batch], rows, among >= MANY), strict=True
            )


def _plain(agent: Agent) -> TorchAgent | None:
    """The network that predicts when `agent` does, if it can be stacked with others of its architecture."""
    network = getattr(getattr(agent, "predict", None), "__self__", None)
    return network if isinstance(network, TorchAgent) and stackable(agent) is network else None


@torch.inference_mode()
def _predicted(networks: list[TorchAgent], rows: Rows, wide: bool) -> list[Array]:
    """`TorchAgent.predict` of each."""
    first = networks[0]
    x = flat_rows(first.read.ordered(rows))
    stacked = [torch.stack(same) for same in zip(*(list(n.model.parameters()) for n in networks), strict=True)]
    if wide and len(networks) < TOGETHER:
        stacked = [torch.cat([w, w.new_zeros(TOGETHER - len(w), *w.shape[1:])]) for w in stacked]
    assert isinstance(first.x, Tensor)
    with explained(first.who, first.kind, x, first.x.flatten(1)):
        outputs = [_outputs(stacked, batch, wide) for batch in in_batches(x) if isinstance(batch, Tensor)]
    out = torch.cat(outputs, dim=1)
    stacked_predictions = getattr(networks[0].task, "stacked_predictions", None) if wide else None
    if stacked_predictions is not None:
        return list(stacked_predictions(out)[: len(networks)].numpy())
    return [n.task.predictions(own).float().numpy() for n, own in zip(networks, out, strict=False)]


def _outputs(weights: list[Tensor], x: Tensor, wide: bool) -> Tensor:
    """What stacked networks return for `x` (samples, numbers): (models, samples, outputs)."""
    models, matrix, bias = len(weights[0]), weights[0], weights[1]
    if wide:
        product = torch.addmm(bias.flatten(), x, matrix.flatten(0, 1).mT)
        out = product.view(len(x), models, -1).transpose(0, 1).contiguous()
    else:
        out = torch.baddbmm(bias.unsqueeze(1), x.expand(models, -1, -1), matrix.mT)
    for matrix, bias in zip(weights[2::2], weights[3::2], strict=True):
        out = torch.baddbmm(bias.unsqueeze(1), out.relu_(), matrix.mT)
    return out
