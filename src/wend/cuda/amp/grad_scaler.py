"""GradScaler under its older name."""

from wend import amp

__all__ = ["GradScaler"]


class GradScaler(amp.GradScaler):
    """torch.amp.GradScaler("cuda"), which disables itself without such a device."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
