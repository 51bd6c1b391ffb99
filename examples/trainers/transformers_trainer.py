"""Scale-free PiKE in the Trainer of transformers.

    python examples/trainers/transformers_trainer.py

The model is a tiny GPT-2 without a download; the domains are made up (`made_up.py`).
"""

import tempfile

from made_up import domains, tiny_model
from transformers import Trainer, TrainingArguments, default_data_collator

from pike_mixing import ScaleFreePiKE
from pike_mixing.transformers import attach


def main() -> None:
    """Trains, and prints the weights that the Trainer logs."""
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=60,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(tiny_model(), args, data_collator=default_data_collator)
        mixing = attach(trainer, ScaleFreePiKE(every=5), domains())
        trainer.train()
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
