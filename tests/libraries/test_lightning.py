"""Lightning: a Trainer with checkpoints, schedules and callbacks, and Fabric."""

import importlib.util

import pytest

if importlib.util.find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)
import lightning


def module(torch):
    class Module(lightning.LightningModule):
        def __init__(self, lr=1e-2):
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
            )

        def loss(self, batch):
            return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def training_step(self, batch, index):
            loss = self.loss(batch)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, index):
            self.log("val_loss", self.loss(batch))

        def predict_step(self, batch, index):
            return self.net(batch[0])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    return Module


@pytest.fixture
def batches(torch):
    x = torch.randn(64, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=16)


@pytest.mark.library("lightning")
def test_trainer(torch, batches, tmp_path):
    """`Trainer`: checkpoints, early stopping, schedules, accumulation."""
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    lightning.seed_everything(1)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", default_root_dir=tmp_path, enable_progress_bar=False,
        callbacks=[ModelCheckpoint(monitor="val_loss"), EarlyStopping("val_loss")],
        logger=CSVLogger(tmp_path), gradient_clip_val=1.0, accumulate_grad_batches=2,
        log_every_n_steps=1,
    )  # fmt: skip
    model = module(torch)()
    before = trainer.validate(model, batches, verbose=False)[0]["val_loss"]
    trainer.fit(model, batches, batches)
    assert trainer.validate(model, batches, verbose=False)[0]["val_loss"] < before
    assert len(trainer.predict(model, batches)) == 4
    again = module(torch).load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    assert again.hparams.lr == 1e-2


@pytest.mark.library("lightning")
def test_fabric(torch):
    """`Fabric`."""
    fabric = lightning.Fabric(accelerator="cpu")
    net = torch.nn.Linear(8, 1)
    net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), 0.1))
    before = net.weight.clone()
    fabric.backward(net(torch.randn(4, 8)).square().mean())
    optimizer.step()
    assert not torch.equal(before, net.weight)


@pytest.mark.library("pytorch-lightning")
def test_older_name(torch, batches, tmp_path):
    """The older name of lightning: training."""
    import pytorch_lightning

    class Net(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    net = Net()
    before = net.layer.weight.clone()
    trainer = pytorch_lightning.Trainer(
        max_epochs=1, accelerator="cpu", default_root_dir=tmp_path, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(net, batches)
    assert trainer.global_step == 4 and not torch.equal(before, net.layer.weight)
