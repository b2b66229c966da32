"""Lightning's Trainer on a tiny module: checkpoints, early stopping, clipping, the best weights tested."""

import logging
import tempfile
import warnings

import lightning
import torch
from audit_shown import show, show_training
from clean_tools import blobs, classifier
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = classifier()
        self.losses = []

    def _loss(self, batch):
        return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def training_step(self, batch, index):
        loss = self._loss(batch)
        self.log("loss", loss, on_epoch=True)
        self.losses.append(loss.detach())
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self._loss(batch))

    test_step = validation_step

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


lightning.seed_everything(0, verbose=False)
data = TensorDataset(*blobs())
held = DataLoader(TensorDataset(*blobs(count=32, seed=1)), batch_size=16)
module = Module()
with tempfile.TemporaryDirectory() as folder:
    best = lightning.pytorch.callbacks.ModelCheckpoint(monitor="val_loss", save_last=True)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        callbacks=[best, lightning.pytorch.callbacks.EarlyStopping("val_loss")],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
    )
    trainer.fit(module, DataLoader(data, batch_size=16, shuffle=True), held)
    show(losses=torch.stack(module.losses), tested=trainer.test(module, held, ckpt_path="best", verbose=False))
    show_training(module, *trainer.optimizers)
