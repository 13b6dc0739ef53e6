"""torch.distributed.run: `python -m wend.distributed.run` is `wend launch`, as torchrun."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from wend.distributed.launcher import main as _launch

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Start a program as the flags say; exits with the status of the run if that is not 0."""
    status = _launch(sys.argv[1:] if args is None else args)
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
