"""The LightningModule: training steps for any objective, and the position in the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn

from cophenet._common.checks import DivergenceError
from cophenet._common.limits import one_line
from cophenet.data import Loader, Samples
from cophenet.models import Network, cached_backward
from cophenet.objectives import Objective, StepOutput
from cophenet.runs.experiment import Experiment
from cophenet.runs.loss_meter import Meter
from cophenet.runs.optimizers import create_optimizer, learning_rate, set_learning_rate
from cophenet.runs.stages import Stage, plan_stages, stage_at

__all__ = ["TrainingModule", "derive_seed"]

Batch = tuple[Tensor, Tensor]
Outputs = tuple[Tensor, dict[str, Tensor]]


def derive_seed(*keys: int) -> int:
    """Derive a torch seed from all the keys and their order.

    Example:
        >>> derive_seed(0, 1) == derive_seed(0, 1), derive_seed(0, 1) == derive_seed(1, 0)
        (True, False)
    """
    # SeedSequence ignores trailing zeros: put the number of keys in front.
    return int(np.random.SeedSequence((len(keys), *keys)).generate_state(1, np.uint64)[0])


def _seed_torch(seed: int) -> None:
    """Seed the devices in use; before CUDA is initialized, each `torch.manual_seed` call would be queued."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class TrainingModule(pl.LightningModule):
    """Trains a network with any objective, through the terms, heads and phases of the objective.

    Position, sample order and random numbers are managed here and not by Lightning, so that resuming from a
    checkpoint in the middle of an epoch gives the same result with every version of Lightning.

    Args:
        experiment: Data and settings.
        network: The network to train.
        objective: The loss; may have a state.
        seed: Seed of all random numbers.

    Attributes:
        epoch: Number of completed epochs.
        step: Number of completed steps of the current epoch.
        seconds: Time spent in the current epoch, including the time before an interruption.
        meter: Loss terms of the current epoch.
        accuracy: Accuracy of the last evaluation on `watched`; None in phases that do not train the classes.
        best: Epoch number, accuracy and weights of the best epoch so far, if the recipe has `stopping`.
        saved: Features, logits and labels of the last evaluation, by batch, if features are saved.
    """

    def __init__(self, experiment: Experiment, network: Network, objective: Objective, seed: int) -> None:
        super().__init__()
        self.network, self.objective = network, objective
        self.experiment, self.recipe, self.seed = experiment, experiment.recipe, seed
        self.stages = plan_stages(objective.phases, self.recipe.epochs)
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.meter = Meter()
        self.accuracy: float | None = None
        self.best: dict[str, Any] = {}
        self.saved: list[dict[str, Tensor]] = []
        self._correct: list[Tensor] = []
        self.automatic_optimization = self.recipe.chunk_size is None

    @property
    def total_epochs(self) -> int:
        """Number of epochs of all phases."""
        return self.stages[-1].end

    @cached_property
    def steps_per_epoch(self) -> int:
        """Number of batches of a whole epoch."""
        return len(self._loader)

    @property
    def _loader(self) -> Loader:
        """This process's share of the training batches."""
        trainer = self.trainer
        return self.experiment.training_loader(
            self.seed,
            device=trainer.strategy.root_device,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
        )

    @property
    def total_step(self) -> int:
        """Number of completed steps, over all epochs."""
        return self.epoch * self.steps_per_epoch + self.step

    @property
    def stage(self) -> Stage:
        """The stage of the current epoch."""
        return stage_at(self.stages, self.epoch)

    @property
    def learning_rate(self) -> float:
        """Learning rate of the current epoch; the schedule restarts in every phase."""
        start, end = self.stage.start, self.stage.end
        return learning_rate(self.recipe.optimizer, self.recipe.schedule, self.epoch - start, end - start)

    @property
    def watched(self) -> Samples:
        """Samples evaluated after every epoch: the validation samples, or the test samples without any."""
        return self.experiment.test if self.experiment.validation is None else self.experiment.validation

    @property
    def watched_part(self) -> str:
        """Name of the `watched` samples: "test" or "validation"."""
        return "test" if self.experiment.validation is None else "validation"

    @property
    def warmup(self) -> float:
        """Factor of the CPCC weight in the current step, which rises linearly to 1 during warmup."""
        steps = self.recipe.objective.cpcc.warmup * self.total_epochs * self.steps_per_epoch
        return min(1.0, (self.total_step + 1) / steps) if steps else 1.0

    @property
    def ends(self) -> bool:
        """Whether the training is over: no epoch is left, or `stopping.patience` is exhausted."""
        stopping = self.recipe.stopping
        patience = None if stopping is None else stopping.patience
        tired = patience is not None and self.best and self.epoch - self.best["epoch"] >= patience
        return self.epoch >= self.total_epochs or bool(tired)

    @property
    def saves_features(self) -> bool:
        """Whether to save features after the current epoch."""
        every = self.recipe.save_features_every
        return every > 0 and (self.epoch + 1) % every == 0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One optimizer for all weights; heads of other phases have no gradient and are not updated."""
        return create_optimizer(self.parameters(), self.recipe.optimizer)

    def train_dataloader(self) -> EpochRest:
        """Return the remaining batches of the current epoch; Lightning calls this in every epoch."""
        return EpochRest(self._loader, self.epoch, self.step)

    def val_dataloader(self) -> EpochRest:
        """Return all `watched` samples, on every device."""
        device = self.trainer.strategy.root_device
        return EpochRest(self.experiment.evaluation_loader(self.watched, device=device), 0, 0)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Return the batch unchanged: the loader has already placed it on the right devices."""
        _ = device, dataloader_idx
        return batch

    def on_train_epoch_start(self) -> None:
        """Set the learning rate of the epoch; clear the optimizer state at the start of a phase."""
        (optimizer,) = self.trainer.optimizers
        set_learning_rate(optimizer, self.learning_rate)
        if self.step == 0 and self.epoch == self.stage.start:
            optimizer.state.clear()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step: its random numbers depend only on seed, step and rank."""
        _ = batch, batch_idx
        _seed_torch(derive_seed(self.seed, self.total_step, self.global_rank))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor | None:
        """Return the loss of a batch; with `chunk_size` do the whole step, with several backward passes."""
        _ = batch_idx
        inputs, labels = batch
        if self.automatic_optimization:
            features, logits = self.network(inputs)
            terms = self._terms(features, logits, labels)
            self.step += 1
            return torch.stack(tuple(terms.values())).sum()
        optimizer = self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        optimizer.zero_grad()
        self._backward_in_chunks(inputs, labels)
        optimizer.step()
        self.step += 1
        return None

    def _backward_in_chunks(self, inputs: Tensor, labels: Tensor) -> None:
        """Accumulate the gradient of a batch in the parameters, averaged over the DDP processes."""
        assert self.recipe.chunk_size is not None
        strategy = self.trainer.strategy if isinstance(self.trainer.strategy, DDPStrategy) else None
        network = _TrainedOutputs(self.network, self.stage.phase.heads, strategy)

        def backward(total: Tensor) -> None:
            with nullcontext() if strategy is None else network.no_sync():
                self.manual_backward(total)

        def loss(outputs: Outputs) -> dict[str, Tensor]:
            return self._terms(*outputs, labels)

        cached_backward(network, inputs, loss, self.recipe.chunk_size, backward=backward)

    def _terms(self, features: Tensor, logits: Mapping[str, Tensor], labels: Tensor) -> dict[str, Tensor]:
        """Compute the loss terms of a batch and add them to the meter."""
        step = StepOutput(features, logits, labels, self.network.heads, self.stage.index)
        try:
            terms: dict[str, Tensor] = self.objective(step)
        except ValueError as error:
            self.meter.check()
            if torch.isfinite(features).all():
                raise
            problem = f"the network's features became NaN or inf in step {self.total_step}"
            raise DivergenceError(problem) from error
        self.meter.add(self.total_step, terms, len(labels))  # without warmup, so that epochs can be compared
        return {**terms, "cpcc": self.warmup * terms["cpcc"]} if "cpcc" in terms else terms

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Count correct predictions, and collect features if they are to be saved."""
        _ = batch_idx
        inputs, labels = batch
        features, logits = self.network(inputs)
        classes = logits[self.objective.finest]
        self._correct.append((classes.argmax(1) == labels).sum())
        if self.saves_features and self.trainer.is_global_zero:
            outputs = {"features": features.float(), "logits": classes.float(), "labels": labels}
            self.saved.append({name: values.cpu() for name, values in outputs.items()})

    def on_validation_epoch_start(self) -> None:
        """Reset the counts and the collected features."""
        self._correct, self.saved = [], []

    def on_validation_epoch_end(self) -> None:
        """Compute the accuracy, if the phase trains the classes."""
        if self.objective.finest not in self.stage.phase.heads:
            self.accuracy = None
            return
        self.accuracy = int(torch.stack(self._correct).sum()) / len(self.watched)

    def on_train_epoch_end(self) -> None:
        """Advance to the next epoch; recording callbacks run before this, the checkpoint callback after."""
        self.epoch, self.step, self.seconds = self.epoch + 1, 0, 0.0
        self.meter.reset()
        self.saved = []
        if self.recipe.stopping is not None:
            self._keep_best()

    def _keep_best(self) -> None:
        """Store the weights if they are the best so far; at the end of training, restore the best."""
        if self.accuracy is not None and self.accuracy > self.best.get("accuracy", -1.0):
            state = {name: value.detach().cpu().clone() for name, value in self.state_dict().items()}
            self.best = {"epoch": self.epoch, "accuracy": self.accuracy, "state": state}
        if self.ends and self.best:
            self.load_state_dict(self.best["state"])
            self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the position in the training, in place of Lightning's loop state."""
        del checkpoint["loops"]
        checkpoint["epoch"], checkpoint["global_step"] = self.epoch, self.total_step
        epoch = self.total_epochs if self.ends else self.epoch
        checkpoint["position"] = {"epoch": epoch, "step": self.step, "seconds": self.seconds}
        checkpoint["best"] = {**self.best, "state": {}} if self.ends and self.best else self.best
        checkpoint["meter"] = self.meter.state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Set all parameters and buffers.

        Raises:
            ValueError: If names or shapes do not match this module.
        """
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:
            raise ValueError(f"the checkpoint is not of this training: {one_line(error)}") from error

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Continue at the position of the checkpoint."""
        position = checkpoint["position"]
        self.epoch, self.step, self.seconds = position["epoch"], position["step"], position["seconds"]
        self.best = checkpoint.get("best", {})
        self.meter.restore(checkpoint["meter"], self.trainer.strategy.root_device)


class EpochRest:
    """The remaining batches of an epoch, from a given step.

    Args:
        loader: The source of the batches.
        epoch: Number of the epoch, from 0.
        start: The first step.
    """

    def __init__(self, loader: Loader, epoch: int, start: int) -> None:
        self.loader, self.epoch, self.start = loader, epoch, start

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.loader) - self.start

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches."""
        return self.loader.batches(self.epoch, self.start)


class _TrainedOutputs(nn.Module):
    """Features, and logits of the heads trained in a phase; the gradients of other heads stay None.

    With DDP, gradients are averaged over the processes once, with the last chunk.

    Args:
        network: Maps inputs to features and the logits of all heads.
        heads: Names of the trained heads.
        strategy: The DDP strategy; None without DDP.
    """

    def __init__(self, network: nn.Module, heads: Sequence[str], strategy: DDPStrategy | None) -> None:
        super().__init__()
        self.network, self._heads, self._strategy = network, heads, strategy
        if strategy is not None:
            self.no_sync = strategy.block_backward_sync

    def forward(self, inputs: Tensor) -> Outputs:
        """Compute the outputs of a chunk."""
        features, logits = self.network(inputs)
        outputs = features, {name: logits[name] for name in self._heads}
        if self._strategy is not None and torch.is_grad_enabled():
            # Has no effect within no_sync; searches the nested outputs for tensors.
            self._strategy.pre_backward(outputs)  # type: ignore[arg-type]
        return outputs
