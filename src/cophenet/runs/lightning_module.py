"""The LightningModule: one step of any objective, and its position in the training."""

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

from cophenet._common.limits import one_line
from cophenet.data import Loader, Samples
from cophenet.models import Network, cached_backward
from cophenet.objectives import Objective, StepOutput
from cophenet.runs.experiment import Experiment
from cophenet.runs.loss_meter import DivergenceError, Meter
from cophenet.runs.optimizers import create_optimizer, learning_rate, set_learning_rate
from cophenet.runs.stages import Stage, plan_stages, stage_at

__all__ = ["TrainingModule", "derive_seed"]

Batch = tuple[Tensor, Tensor]
Outputs = tuple[Tensor, dict[str, Tensor]]


def derive_seed(*keys: int) -> int:
    """A seed for torch that depends on all the keys.

    Example:
        >>> derive_seed(0, 1) == derive_seed(0, 1), derive_seed(0, 1) == derive_seed(1, 0)
        (True, False)
    """
    # With their number in front, because zeros at the end count for nothing.
    return int(np.random.SeedSequence((len(keys), *keys)).generate_state(1, np.uint64)[0])


def _seed_torch(seed: int) -> None:
    """Seed the devices in use; for a GPU that is not, `torch.manual_seed` queues a call in every step."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class TrainingModule(pl.LightningModule):
    """Trains a network for an objective, of which it knows only terms, heads and phases.

    Position, order of the samples and random numbers are its own and not Lightning's: a training that goes
    on from a checkpoint in the middle of an epoch is then the same with every version of Lightning.

    Args:
        experiment: Data and settings.
        network: What is trained.
        objective: The loss, with a state of its own in some cases.
        seed: Decides everything random.

    Attributes:
        epoch: Epochs that are complete.
        step: Steps of the present epoch that are complete.
        seconds: Time spent in the present epoch before the checkpoint it goes on from.
        meter: Loss terms of the present epoch.
        accuracy: Of the last evaluation on `watched`; None in phases that do not train the classes.
        best: Of the best epoch so far its number, accuracy and weights, if the recipe has `stopping`.
        saved: Features and logits of that evaluation, batch by batch, if asked for.
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
        """Of all phases together."""
        return self.stages[-1].end

    @cached_property
    def steps_per_epoch(self) -> int:
        """Batches of a whole epoch."""
        return len(self.experiment.training_loader(self.seed, world_size=self.trainer.world_size))

    @property
    def total_step(self) -> int:
        """Steps that are complete, in all epochs."""
        return self.epoch * self.steps_per_epoch + self.step

    @property
    def stage(self) -> Stage:
        """The phase that is trained now."""
        return stage_at(self.stages, self.epoch)

    @property
    def learning_rate(self) -> float:
        """Of the present epoch; every phase begins anew."""
        start, end = self.stage.start, self.stage.end
        return learning_rate(self.recipe.optimizer, self.recipe.schedule, self.epoch - start, end - start)

    @property
    def watched(self) -> Samples:
        """What is looked at after every epoch: the test part, unless an epoch is to be chosen."""
        return self.experiment.test if self.experiment.validation is None else self.experiment.validation

    @property
    def watched_part(self) -> str:
        """What it is called: "test" or "validation"."""
        return "test" if self.experiment.validation is None else "validation"

    @property
    def warmup(self) -> float:
        """The share of its weight that the CPCC term has in the present step."""
        steps = self.recipe.objective.cpcc.warmup * self.total_epochs * self.steps_per_epoch
        return min(1.0, (self.total_step + 1) / steps) if steps else 1.0

    @property
    def ends(self) -> bool:
        """Whether no epoch is left, or `stopping.patience` is at its end."""
        stopping = self.recipe.stopping
        patience = None if stopping is None else stopping.patience
        tired = patience is not None and self.best and self.epoch - self.best["epoch"] >= patience
        return self.epoch >= self.total_epochs or bool(tired)

    @property
    def saves_features(self) -> bool:
        """Whether the features after the present epoch are to be saved."""
        every = self.recipe.save_features_every
        return every > 0 and (self.epoch + 1) % every == 0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """All weights in one optimizer; those without a gradient, heads of other phases, stay as they are."""
        return create_optimizer(self.parameters(), self.recipe.optimizer)

    def train_dataloader(self) -> EpochRest:
        """The rest of the present epoch; asked for anew in every epoch, before anything is prefetched."""
        trainer = self.trainer
        loader = self.experiment.training_loader(
            self.seed,
            device=trainer.strategy.root_device,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
        )
        return EpochRest(loader, self.epoch, self.step)

    def val_dataloader(self) -> EpochRest:
        """What is watched, whole on every device."""
        device = self.trainer.strategy.root_device
        return EpochRest(self.experiment.evaluation_loader(self.watched, device=device), 0, 0)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """As it is: the loader has put everything where it is wanted."""
        _ = device, dataloader_idx
        return batch

    def on_train_epoch_start(self) -> None:
        """The learning rate of the epoch; a phase begins with an optimizer that remembers nothing."""
        (optimizer,) = self.trainer.optimizers
        set_learning_rate(optimizer, self.learning_rate)
        if self.step == 0 and self.epoch == self.stage.start:
            optimizer.state.clear()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Random numbers of a step depend on seed and step alone."""
        _ = batch, batch_idx
        _seed_torch(derive_seed(self.seed, self.total_step, self.global_rank))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor | None:
        """The loss of a batch; with chunks the whole step, because Lightning's own has one backward pass."""
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
        """Add the gradient of a batch to the parameters, averaged over DDP's processes."""
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
        """The loss terms of a batch, counted."""
        step = StepOutput(features, logits, labels, self.network.heads, self.stage.index)
        try:
            terms: dict[str, Tensor] = self.objective(step)
        except ValueError as error:
            self.meter.check()
            if torch.isfinite(features).all():
                raise
            problem = f"the network's features became NaN or inf in step {self.total_step}"
            raise DivergenceError(problem) from error
        self.meter.add(self.total_step, terms, len(labels))  # with the whole weight, to be compared
        return {**terms, "cpcc": self.warmup * terms["cpcc"]} if "cpcc" in terms else terms

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Count right answers, and collect features if they are to be saved."""
        _ = batch_idx
        inputs, labels = batch
        features, logits = self.network(inputs)
        classes = logits[self.objective.finest]
        self._correct.append((classes.argmax(1) == labels).sum())
        if self.saves_features and self.trainer.is_global_zero:
            outputs = {"features": features.float(), "logits": classes.float(), "labels": labels}
            self.saved.append({name: values.cpu() for name, values in outputs.items()})

    def on_validation_epoch_start(self) -> None:
        """Count from nothing."""
        self._correct, self.saved = [], []

    def on_validation_epoch_end(self) -> None:
        """The share of right answers, if the phase trains the classes."""
        if self.objective.finest not in self.stage.phase.heads:
            self.accuracy = None
            return
        self.accuracy = int(torch.stack(self._correct).sum()) / len(self.watched)

    def on_train_epoch_end(self) -> None:
        """The epoch is complete; callbacks that record it come before this, checkpoints after."""
        self.epoch, self.step, self.seconds = self.epoch + 1, 0, 0.0
        self.meter.reset()
        self.saved = []
        if self.recipe.stopping is not None:
            self._keep_best()

    def _keep_best(self) -> None:
        """Remember the weights if they are the best so far; at the end, go back to the best."""
        if self.accuracy is not None and self.accuracy > self.best.get("accuracy", -1.0):
            state = {name: value.detach().cpu().clone() for name, value in self.state_dict().items()}
            self.best = {"epoch": self.epoch, "accuracy": self.accuracy, "state": state}
        if self.ends and self.best:
            self.load_state_dict(self.best["state"])
            self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The position in the training, in place of Lightning's own."""
        del checkpoint["loops"]
        checkpoint["epoch"], checkpoint["global_step"] = self.epoch, self.total_step
        epoch = self.total_epochs if self.ends else self.epoch
        checkpoint["position"] = {"epoch": epoch, "step": self.step, "seconds": self.seconds}
        checkpoint["best"] = {**self.best, "state": {}} if self.ends and self.best else self.best
        checkpoint["meter"] = self.meter.state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Set all parameters.

        Raises:
            ValueError: If they are not those of this network.
        """
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:
            raise ValueError(f"the checkpoint is not of this training: {one_line(error)}") from error

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on at the position of the checkpoint."""
        position = checkpoint["position"]
        self.epoch, self.step, self.seconds = position["epoch"], position["step"], position["seconds"]
        self.best = checkpoint.get("best", {})
        self.meter.restore(checkpoint["meter"], self.trainer.strategy.root_device)


class EpochRest:
    """The batches of an epoch from a step on.

    Args:
        loader: Makes them.
        epoch: Number of the epoch, from 0.
        start: The first step.
    """

    def __init__(self, loader: Loader, epoch: int, start: int) -> None:
        self.loader, self.epoch, self.start = loader, epoch, start

    def __len__(self) -> int:
        """How many they are."""
        return len(self.loader) - self.start

    def __iter__(self) -> Iterator[Batch]:
        """The batches."""
        return self.loader.batches(self.epoch, self.start)


class _TrainedOutputs(nn.Module):
    """Features, and logits of the heads that a phase trains: others get no gradient, not even zeros.

    In Lightning's DDP gradients are averaged over the processes once, with the last chunk.

    Args:
        network: From inputs to features and the logits of all heads.
        heads: Those that are trained.
        strategy: The DDP strategy, if that is used.
    """

    def __init__(self, network: nn.Module, heads: Sequence[str], strategy: DDPStrategy | None) -> None:
        super().__init__()
        self.network, self._heads, self._strategy = network, heads, strategy
        if strategy is not None:
            self.no_sync = strategy.block_backward_sync

    def forward(self, inputs: Tensor) -> Outputs:
        """The outputs of a chunk."""
        features, logits = self.network(inputs)
        outputs = features, {name: logits[name] for name in self._heads}
        if self._strategy is not None and torch.is_grad_enabled():
            # Does nothing within no_sync; it finds the tensors of the outputs itself.
            self._strategy.pre_backward(outputs)  # type: ignore[arg-type]
        return outputs
