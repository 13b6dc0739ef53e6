"""Finding out: explanations, profiles, memory, checks for NaN, deterministic runs."""

from __future__ import annotations

import wend as torch
from wend import Tensor, nn
from wend.profiler import ProfilerActivity, profile, record_function


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with record_function("layer"):
            return torch.tanh(self.layer(x))


def profiled(model: Model, x: Tensor) -> str:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        for _ in range(2):
            model(x).sum().backward()
            prof.step()
    return prof.key_averages().table(sort_by="cpu_time_total", row_limit=3)


def checked(model: Model, x: Tensor) -> float:
    with torch.autograd.detect_anomaly(check_nan=True):
        loss = model(x).log1p().mean()
        loss.backward()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model, x = Model(), torch.rand(4, 8)
    table = profiled(model, x)
    print(table.splitlines()[0][:10], checked(model, x) != 0)
    y = model(x)
    print(y.sum().item() != 0)
    explanation = torch.debug.explain()
    print(len(str(explanation)) > 0, len(explanation.flushes) > 0)
    torch.use_deterministic_algorithms(False)
    print(torch.get_num_threads() > 0, torch.get_default_dtype(), torch.__version__[:1].isdigit())
    assert torch.isfinite(y).all(), "the model blew up"
    torch.testing.assert_close(y, y.clone(), rtol=1e-5, atol=1e-8)
    print(torch.finfo(torch.float32).eps, torch.iinfo(torch.int8).max)
    state = torch.get_rng_state()
    first = torch.rand(2)
    torch.set_rng_state(state)
    print(torch.equal(first, torch.rand(2)))


if __name__ == "__main__":
    main()
