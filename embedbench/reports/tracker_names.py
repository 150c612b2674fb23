"""Our trackers by name, apart from their code: `embedbench list` is quick."""

TRACKERS = {
    "tensorboard": "event files in DIR: tensorboard:DIR",
    "wandb": "Weights & Biases, online or offline as WANDB_MODE says: wandb:PROJECT",
}
