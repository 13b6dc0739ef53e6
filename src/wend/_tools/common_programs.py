"""Small trainings whose kernels an installation brings along (see `ready_kernels`).

Kernels have no sizes in them. So the kernels of these programs are those of most nets made of the
same blocks: linear maps, cells, norms, attention, convolutions, losses, optimizers. A program is a
function that builds a net and returns a step of training. Each decorator argument is a variant.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import wend
from wend.nn.modules.module import Module

# The public surface looks up its names when they are asked for, which type checkers do not see.
torch: Any = wend
nn, optim, F = torch.nn, torch.optim, torch.nn.functional

Step = Callable[[], Any]
Optimizer = Callable[[Any], Any]

_RANDOM = random.Random(0)
WIDTH, BATCH, CLASSES, WORDS = 12, 6, 4, 30
#: The turns of a loop are written out in short paths, and are a loop of the kernel in long ones.
LENGTHS = (3, 5, 8, 11)

_PROGRAMS: list[tuple[Callable[..., Step], tuple[Any, ...]]] = []


def _variants(*variants: Any) -> Callable[[Callable[..., Step]], Callable[..., Step]]:
    """Note a program once for each variant, or once if there are none."""

    def note(build: Callable[..., Step]) -> Callable[..., Step]:
        for variant in variants:
            _PROGRAMS.append((build, (variant,)))
        if not variants:
            _PROGRAMS.append((build, ()))
        return build

    return note


def programs() -> Iterator[Step]:
    """Yield a step of each program; the nets are built as they are asked for."""
    for build, variant in _PROGRAMS:
        yield build(*variant)


def _length() -> int:
    return _RANDOM.choice(LENGTHS)


def _labels() -> Any:
    return torch.randint(0, CLASSES, (BATCH,))


def _training(net: Any, optimizer: Optimizer, loss: Callable[[], Any]) -> Step:
    steps = optimizer(net.parameters())

    def step() -> float:
        steps.zero_grad()
        value = loss()
        value.backward()
        steps.step()
        return float(value)

    return step


# -- optimizers, over a net of words --------------------------------------------------------------


class _Words(Module):
    """A recurrent net by hand, with a tanh cell."""

    def __init__(self, inside: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.a, self.u = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, CLASSES)
        self.inside = inside

    def forward(self, x: Any) -> Any:
        h = x.new_zeros(x.shape[1], WIDTH)
        for word in x:
            h = torch.tanh(self.a(word) + self.u(h))
            if self.inside is not None:
                h = self.inside(h)
        return self.v(h)


@_variants(
    lambda p: optim.SGD(p, lr=0.01),
    lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
    lambda p: optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4),
    lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    lambda p: optim.Adam(p, lr=0.01),
    lambda p: optim.Adam(p, lr=0.01, weight_decay=1e-4),
    lambda p: optim.AdamW(p, lr=0.01),
    lambda p: optim.RMSprop(p, lr=0.01),
    lambda p: optim.Adagrad(p, lr=0.01),
    lambda p: optim.NAdam(p, lr=0.01),
    lambda p: optim.Adamax(p, lr=0.01),
)
def optimizers(optimizer: Optimizer) -> Step:
    """Build a classifier of sentences of several lengths."""
    net = _Words()

    def loss() -> Any:
        return F.cross_entropy(net(torch.randn(_length(), BATCH, WIDTH)), _labels())

    return _training(net, optimizer, loss)


@_variants(
    torch.relu, torch.sigmoid, F.gelu, F.silu, F.elu, F.softplus, F.leaky_relu, torch.sin,
    lambda h: h * 0.5, lambda h: h + 1.0, lambda h: h.clamp(-1.0, 1.0), lambda h: h / 2,
    lambda h: F.dropout(h, 0.1), lambda h: torch.softmax(h, -1), lambda h: F.normalize(h, dim=-1),
    lambda h: F.layer_norm(h, (WIDTH,)), lambda h: h.masked_fill(h < 0, 0.0), lambda h: h.abs(),
    lambda h: torch.where(h > 0, h, h * 0.1), lambda h: h - h.mean(-1, keepdim=True),
    lambda h: torch.cat(h.chunk(2, -1), -1), lambda h: h @ h.new_ones(WIDTH, WIDTH),
    lambda h: h * torch.sigmoid(h.sum(-1, keepdim=True)), lambda h: h + torch.randn_like(h),
    lambda h: torch.exp(-h * h), lambda h: h.detach() + h, lambda h: h.square().sqrt(),
    lambda h: torch.stack([h, h]).mean(0), lambda h: h[:, :WIDTH // 2].repeat(1, 2),
    lambda h: h * (torch.rand_like(h) < 0.9), lambda h: h.max(-1, keepdim=True).values * h,
)  # fmt: skip
def further_ops(inside: Callable[[Any], Any]) -> Step:
    """Build the same classifier with a further op for each word."""
    net = _Words(inside)

    def loss() -> Any:
        return F.cross_entropy(net(torch.randn(_length(), BATCH, WIDTH)), _labels())

    return _training(net, lambda p: optim.SGD(p, lr=0.01), loss)


@_variants(1, 0)
def many_lengths(decay: float) -> Step:
    """Build that classifier for sentences of all usual lengths."""
    net = _Words()

    def loss() -> Any:
        return F.cross_entropy(net(torch.randn(_RANDOM.randint(3, 12), BATCH, WIDTH)), _labels())

    return _training(net, lambda p: optim.Adam(p, lr=0.01, weight_decay=decay), loss)


@_variants(torch.float64, torch.bfloat16, None)
def precisions(dtype: Any) -> Step:
    """Build that classifier in another precision, or in bfloat16 where `autocast` says so."""
    net = _Words()
    if dtype is not None:
        net = net.to(dtype)

    def loss() -> Any:
        x = torch.randn(_length(), BATCH, WIDTH, dtype=dtype or torch.float32)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is None):
            return F.cross_entropy(net(x), _labels())

    return _training(net, lambda p: optim.Adam(p, lr=0.01), loss)


@_variants(False, True)
def sums_of_gradients(is_clipped: bool) -> Step:
    """Build a training that adds up the gradients of several batches, and may clip these."""
    net = _Words()
    steps = optim.AdamW(net.parameters(), lr=0.01)

    def step() -> float:
        steps.zero_grad()
        total = 0.0
        for _ in range(3):
            x = torch.randn(_length(), BATCH, WIDTH)
            value = F.cross_entropy(net(x), _labels()) / 3
            value.backward()
            total += float(value)
        if is_clipped:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        steps.step()
        return total

    return step


# -- cells and recurrent layers -------------------------------------------------------------------


@_variants(nn.RNNCell, nn.GRUCell, nn.LSTMCell)
def cells(kind: Any) -> Step:
    """Build a tagger of sentences, a cell a word; each word's vector comes from a table."""
    net = nn.ModuleList([nn.Embedding(WORDS, WIDTH), kind(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)])
    table, cell, out = net

    def loss() -> Any:
        n = _length()
        h = torch.zeros(BATCH, WIDTH)
        state: Any = (h, torch.zeros(BATCH, WIDTH)) if kind is nn.LSTMCell else h
        words, losses = torch.randint(0, WORDS, (n, BATCH)), []
        for t in range(n):
            state = cell(table(words[t]), state)
            top = state[0] if isinstance(state, tuple) else state
            losses.append(F.cross_entropy(out(top), _labels()))
        return torch.stack(losses).mean()

    return _training(net, lambda p: optim.Adam(p, lr=0.01), loss)


@_variants((nn.RNN, False), (nn.GRU, False), (nn.LSTM, False), (nn.GRU, True), (nn.LSTM, True))
def layers(variant: tuple[Any, bool]) -> Step:
    """Build a classifier by a recurrent layer, in a single direction or both."""
    kind, is_both = variant
    layer = kind(WIDTH, WIDTH, batch_first=True, bidirectional=is_both)
    out = nn.Linear(WIDTH * (1 + is_both), CLASSES)
    net = nn.ModuleList([layer, out])

    def loss() -> Any:
        return F.cross_entropy(out(layer(torch.randn(BATCH, 5, WIDTH))[0][:, -1]), _labels())

    return _training(net, lambda p: optim.Adam(p, lr=0.01), loss)


@_variants()
def gates_by_hand() -> Step:
    """Build an LSTM cell by hand: a product, then four gates."""
    gates, out = nn.Linear(2 * WIDTH, 4 * WIDTH), nn.Linear(WIDTH, CLASSES)

    def loss() -> Any:
        h, c = torch.zeros(BATCH, WIDTH), torch.zeros(BATCH, WIDTH)
        for x in torch.randn(_length(), BATCH, WIDTH):
            i, f, g, o = gates(torch.cat([x, h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return F.cross_entropy(out(h), _labels())

    return _training(nn.ModuleList([gates, out]), lambda p: optim.Adam(p, lr=0.01), loss)


@_variants()
def trees() -> Step:
    """Build a net over trees of several shapes: leaves from a table, pairs by a linear map."""
    table, pair, out = nn.Embedding(WORDS, WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 4)

    def node(n: int) -> Any:
        if n == 1:
            return table(torch.tensor([_RANDOM.randrange(WORDS)]))
        left = _RANDOM.randint(1, n - 1)
        return torch.tanh(pair(torch.cat([node(left), node(n - left)], 1)))

    def loss() -> Any:
        return F.cross_entropy(out(node(_length())), torch.tensor([_RANDOM.randrange(4)]))

    return _training(nn.ModuleList([table, pair, out]), lambda p: optim.Adam(p, lr=0.01), loss)


# -- stacks of layers ------------------------------------------------------------------------------


@_variants(
    nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.LeakyReLU, nn.ELU,
    lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.1)),
    lambda: nn.Sequential(nn.BatchNorm1d(2 * WIDTH), nn.ReLU()),
    lambda: nn.Sequential(nn.LayerNorm(2 * WIDTH), nn.ReLU()),
)  # fmt: skip
def perceptrons(middle: Callable[[], Any]) -> Step:
    """Build a perceptron with a hidden layer, which trains, then predicts."""
    net = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), middle(), nn.Linear(2 * WIDTH, CLASSES))

    def loss() -> Any:
        net.eval()
        with torch.no_grad():
            net(torch.randn(BATCH, WIDTH)).argmax(1).tolist()
        net.train()
        return F.cross_entropy(net(torch.randn(BATCH, WIDTH)), _labels())

    return _training(net, lambda p: optim.Adam(p, lr=0.01), loss)


@_variants(
    lambda y, t: F.mse_loss(y, t), lambda y, t: F.l1_loss(y, t),
    lambda y, t: F.smooth_l1_loss(y, t), lambda y, t: F.huber_loss(y, t),
    lambda y, t: F.binary_cross_entropy_with_logits(y, (t > 0).float()),
    lambda y, t: F.binary_cross_entropy(torch.sigmoid(y), (t > 0).float()),
    lambda y, t: F.kl_div(F.log_softmax(y, 1), torch.softmax(t, 1), reduction="batchmean"),
    lambda y, t: F.nll_loss(F.log_softmax(y, 1), t.argmax(1)),
    lambda y, t: F.cross_entropy(y, t.argmax(1), label_smoothing=0.1),
    lambda y, t: F.cross_entropy(y, t.argmax(1), reduction="none").mean(),
    lambda y, t: F.cross_entropy(y, t.argmax(1), reduction="sum"),
    lambda y, t: ((y - t) ** 2).mean(), lambda y, t: (y - t).square().sum(),
    lambda y, t: -torch.log_softmax(y, 1).gather(1, t.argmax(1, keepdim=True)).mean(),
    lambda y, t: 1 - F.cosine_similarity(y, t).mean(), lambda y, t: y.square().mean(),
)  # fmt: skip
def losses(loss_of: Callable[[Any, Any], Any]) -> Step:
    """Build a regression or classification with a usual loss."""
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))

    def loss() -> Any:
        return loss_of(net(torch.randn(BATCH, WIDTH)), torch.randn(BATCH, CLASSES))

    return _training(net, lambda p: optim.SGD(p, lr=0.01), loss)


@_variants(False, True)
def images(is_normed: bool) -> Step:
    """Build a small net of convolutions, with norms over batches or without."""
    norms = [nn.BatchNorm2d(4) if is_normed else nn.Identity() for _ in range(2)]
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), norms[0], nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3, padding=1), norms[1], nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(4, CLASSES)),
    )

    def loss() -> Any:
        return F.cross_entropy(net(torch.randn(BATCH, 1, 8, 8)), _labels())

    return _training(net, lambda p: optim.SGD(p, lr=0.01, momentum=0.9), loss)


@_variants(0.0, 0.1)
def attention(dropout: float) -> Step:
    """Build a language model of a transformer layer, with clipped gradients."""
    table, places = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
    layer = nn.TransformerEncoderLayer(
        WIDTH, 2, 2 * WIDTH, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    out = nn.Linear(WIDTH, WORDS)
    net = nn.ModuleList([table, places, layer, out])
    steps = optim.AdamW(net.parameters(), lr=0.01)

    def step() -> float:
        words = torch.randint(0, WORDS, (BATCH, 9))
        x = table(words[:, :-1]) + places(torch.arange(8))
        mask = nn.Transformer.generate_square_subsequent_mask(8)
        y = out(layer(x, src_mask=mask, is_causal=True))
        value = F.cross_entropy(y.flatten(0, 1), words[:, 1:].flatten())
        steps.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        steps.step()
        return float(value)

    return step


@_variants()
def hidden_draws() -> Step:
    """Build a variational autoencoder."""
    there, back = nn.Linear(WIDTH, 8), nn.Linear(4, WIDTH)

    def loss() -> Any:
        x = torch.rand(BATCH, WIDTH)
        mean, log_variance = there(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        far = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return F.mse_loss(torch.sigmoid(back(z)), x, reduction="sum") + far

    return _training(nn.ModuleList([there, back]), lambda p: optim.Adam(p, lr=0.01), loss)


@_variants()
def rewards() -> Step:
    """Build a policy that draws actions."""
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))

    def loss() -> Any:
        logs = torch.log_softmax(net(torch.randn(BATCH, WIDTH)), -1)
        with torch.no_grad():
            actions = torch.multinomial(logs.exp(), 1)
        advantage = torch.rand(BATCH)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        return -(logs.gather(1, actions).squeeze(1) * advantage).mean()

    return _training(net, lambda p: optim.Adam(p, lr=0.01), loss)
