"""Lightning, accelerate and the Trainer of transformers take the loaders as they are, and models learn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import lakebed
from integration_tests.frameworks import lake
from integration_tests.frameworks.lake import ROWS

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the line that may skip all this

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore"),
]  # those of the frameworks are theirs


class Model(nn.Module):  # type: ignore[misc]
    """Tells dark from bright, in the form that the Trainer of transformers wants."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(8 * 8 * 3, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, pixels: Any, labels: Any) -> dict[str, Any]:
        logits = self.layers(pixels)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def numbered(sample: Any) -> dict[str, Any]:
    """Make a sample that tells its row."""
    return {**lake.ready(sample), "index": sample["index"]}


class Recorder(nn.Module):  # type: ignore[misc]
    """Keeps the rows of each batch that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.rows: list[list[int]] = []

    def forward(self, pixels: Any, labels: Any, index: Any) -> dict[str, Any]:
        self.rows.append(index.flatten().tolist())
        found: dict[str, Any] = self.model(pixels, labels)
        return found


def learn(loader: Any, epochs: int = 3) -> list[float]:
    """Train, and return the losses."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for _ in range(epochs):
        for batch in loader:
            loss = model(batch["pixels"], batch["labels"])["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    return losses


def test_a_loop_of_ones_own(ds: lakebed.Dataset) -> None:
    losses = learn(ds.pytorch(lake.ready, batch_size=16, shuffle=True))
    assert len(losses) == 3 * 7
    assert losses[-1] < 0.5 * losses[0]


def test_lightning_fits_validates_and_resumes(ds: lakebed.Dataset, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    seen: list[int] = []

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, _: int) -> Any:
            seen.append(len(batch["labels"]))
            return self.model(batch["pixels"], batch["labels"])["loss"]

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("loss", self.model(batch["pixels"], batch["labels"])["loss"])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-3)

    def trainer(epochs: int) -> Any:
        return lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False,
            default_root_dir=tmp_path, enable_checkpointing=False,
        )  # fmt: skip

    train, valid = ds.random_split([0.8, 0.2])
    loaders = (
        train.pytorch(lake.ready, batch_size=16, shuffle=True),
        valid.pytorch(lake.ready, batch_size=16),
    )
    first = trainer(2)
    first.fit(Module(), *loaders)
    assert sum(seen) == 2 * len(train)
    first.save_checkpoint(tmp_path / "checkpoint")
    seen.clear()
    again = trainer(3)
    again.fit(Module(), *loaders, ckpt_path=tmp_path / "checkpoint", weights_only=False)
    assert (sum(seen), again.current_epoch) == (len(train), 3)
    assert float(again.callback_metrics["loss"]) < 0.6


def test_lightning_goes_on_in_the_middle_of_an_epoch(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """From a checkpoint of its tenth step come the batches that a training without a break has after it."""
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Recorder()

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-3)

    def fit(**more: Any) -> list[list[int]]:
        saved = lightning.pytorch.callbacks.ModelCheckpoint(
            tmp_path, "{step}", every_n_train_steps=10, save_top_k=-1
        )
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[saved]
        )
        module = Module()
        trainer.fit(module, ds.pytorch(numbered, batch_size=16, shuffle=True), **more)
        return module.model.rows

    whole = fit()
    assert len(whole) == 2 * 7
    assert fit(ckpt_path=tmp_path / "step=10.ckpt", weights_only=False) == whole[10:]


def test_accelerate_prepares_a_loader(ds: lakebed.Dataset) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = accelerator.prepare(ds.pytorch(lake.ready, batch_size=16, shuffle=True))
    rows = [len(batch["labels"]) for batch in loader]
    assert sum(rows) == ROWS
    assert len(learn(loader, 1)) == len(rows) == 7


def accelerated(rank: int, world: int, path: str, port: int, dispatch: bool) -> list[list[int]]:
    """Return the rows of one process of accelerate by the loader that it prepares; the last one is not prepared."""
    accelerate = pytest.importorskip("accelerate")
    # What a launcher tells the processes that it starts.
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    configuration = accelerate.DataLoaderConfiguration(dispatch_batches=dispatch)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=configuration)
    assert (accelerator.num_processes, accelerator.process_index) == (world, rank)
    ds = lakebed.load(path, read_only=True)
    dataset = ds.torch_dataset(numbered, shuffle=True, return_index=True)
    faces = [
        ds.pytorch(numbered, batch_size=8, shuffle=True),
        ds.pytorch(numbered, batch_size=8, shuffle=True, distributed=False),
        torch.utils.data.DataLoader(dataset, batch_size=8),
    ]
    faces = [accelerator.prepare(face) for face in faces]
    faces.append(ds.pytorch(numbered, batch_size=8, shuffle=True))
    found = [[int(row) for batch in face for row in batch["index"].flatten()] for face in faces]
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return found


@pytest.mark.parametrize("dispatch", [False, True])
def test_processes_of_accelerate_miss_no_row(path: str, dispatch: bool) -> None:
    """Whether one process reads for all, or each for itself: then all of them count on one order."""
    pytest.importorskip("accelerate")
    parts = lake.together(accelerated, 2, path, lake.free_port(), dispatch)
    for prepared in range(3):
        rows = [row for part in parts for row in part[prepared]]
        assert set(rows) == set(range(ROWS))
        assert len(rows) - ROWS < 2 * 8, "a last batch is filled up with first samples"
        assert len({len(part[prepared]) for part in parts}) == 1
    lake.check_shares([part[3] for part in parts])


@pytest.mark.parametrize("map_style", [False, True])
def test_trainer_of_transformers(ds: lakebed.Dataset, tmp_path: Path, map_style: bool) -> None:
    transformers = pytest.importorskip("transformers")

    def trainer(epochs: int) -> Any:
        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=epochs, per_device_train_batch_size=16, learning_rate=3e-3, use_cpu=True,
            report_to=[], logging_steps=1, save_strategy="epoch", disable_tqdm=True, dataloader_num_workers=0,
        )  # fmt: skip
        dataset = ds.torch_dataset(lake.ready, shuffle=not map_style, map_style=map_style)
        return transformers.Trainer(Model(), arguments, train_dataset=dataset)

    first = trainer(2)
    first.train()
    losses = [entry["loss"] for entry in first.state.log_history if "loss" in entry]
    assert len(losses) == 2 * 7
    assert losses[-1] < losses[0]
    again = trainer(3)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-14"))
    assert again.state.global_step == 3 * 7


@pytest.mark.parametrize("map_style", [False, True])
def test_trainer_goes_on_in_the_middle_of_an_epoch(
    ds: lakebed.Dataset, tmp_path: Path, map_style: bool
) -> None:
    transformers = pytest.importorskip("transformers")

    def train(**more: Any) -> list[list[int]]:
        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=2, per_device_train_batch_size=16, use_cpu=True, report_to=[],
            save_strategy="steps", save_steps=10, disable_tqdm=True,
        )  # fmt: skip
        dataset = ds.torch_dataset(
            numbered, shuffle=not map_style, seed=1, map_style=map_style, return_index=True
        )
        model = Recorder()
        transformers.Trainer(model, arguments, train_dataset=dataset).train(**more)
        return model.rows

    whole = train()
    assert len(whole) == 2 * 7
    assert train(resume_from_checkpoint=str(tmp_path / "checkpoint-10")) == whole[10:]
