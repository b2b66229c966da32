"""The Trainer of `transformers` on a tiny GPT-2: accumulation, checkpoints, the best at the end."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from audit_shown import show, show_training

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
transformers.set_seed(0)
config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2)
config.loss_type = "ForCausalLM"
model = transformers.GPT2LMHeadModel(config)
tokens = torch.randint(32, (24, 8), generator=torch.Generator().manual_seed(0))
rows = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        max_grad_norm=1.0,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.remove_callback(transformers.PrinterCallback)  # it prints times
    trainer.train()
    show(losses=[entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    show(evaluated=[entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry])
    show(predicted=trainer.predict(rows[:4]).predictions)
    show_training(trainer.model, trainer.optimizer)
