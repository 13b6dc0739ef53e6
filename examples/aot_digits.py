"""Train on scikit-learn's digits, and let a C program read the rest of them.

    wend run examples/aot_digits.py [DIRECTORY]

``wend.aot.compile`` makes a shared library, a C header and a file of weights of the trained CNN.
``aot_digits.c`` is compiled with them and runs without Python. This is Wend's own: PyTorch cannot
run it.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from common import progress
from digits import CNN, load

SOURCE = Path(__file__).with_suffix(".c")


def train(epochs: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """Return a trained net, and held-out images and labels."""
    torch.manual_seed(0)
    train, test = load(0, 1797)
    images, labels = train.tensors
    model = CNN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in progress(range(epochs), "training"):
        for rows in torch.randperm(len(images)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    return model.eval(), *test.tensors


def read_in_c(model: torch.nn.Module, images: torch.Tensor, folder: Path) -> list[int]:
    """Return the digits that the C program reads."""
    made = torch.aot.compile(model, images, directory=folder, name="digits")
    program, data = folder / "aot_digits", folder / "images"
    words = ["cc", "-O2", "-I", folder, SOURCE, made.library, f"-Wl,-rpath,{folder}", "-o", program]
    subprocess.run(words, check=True)
    data.write_bytes(images.numpy().tobytes())
    done = subprocess.run([program, made.weights, data], check=True, capture_output=True, text=True)
    return [int(line) for line in done.stdout.split()]


def main(argv: list[str] | None = None) -> float:
    """Print, and return, the share of held-out images that the C program reads right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", help="where the files go; else they are removed")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args(argv)
    model, images, labels = train(args.epochs)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        folder = Path(args.directory or temporary).resolve()
        found = torch.tensor(read_in_c(model, images, folder))
        assert torch.equal(found, model(images).argmax(dim=1)), "C and Wend read other digits"
    share = (found == labels).float().mean().item()
    print(f"the C program reads {share:.1%} of {len(images)} held-out images right")
    return share


if __name__ == "__main__":
    main()
