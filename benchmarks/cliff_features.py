"""Features for the map of cliffs: a small recurrent net in training, and what programs add to it.

A feature is a function that is registered by where the feature stands:

    @word      fn(net, h, t) -> h: on the state of the net at each word
    @around    fn(program): changes the program: the optimizer, the loss, hooks, the data
    @whole     fn() -> step: a program of its own

`step_of(names)` gives the step of a program that has these features. A step returns the loss, a
number. Everything here is plain PyTorch. Sizes: h is (BATCH, WIDTH), a sentence has 5 to 12 words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, BATCH, CLASSES, VOCABULARY = 32, 8, 4, 2000
DRAW = random.Random(7)
Step = Callable[[], float]

WORDS: dict[str, Callable[[Any, Any, int], Any]] = {}
AROUND: dict[str, Callable[[Program], None]] = {}
WHOLE: dict[str, Callable[[], Step]] = {}


def word(feature: Any) -> Any:
    """Register a feature of the state at each word."""
    WORDS[feature.__name__] = feature
    return feature


def around(feature: Any) -> Any:
    """Register a change of the program."""
    AROUND[feature.__name__] = feature
    return feature


def whole(feature: Any) -> Any:
    """Register a program of its own."""
    WHOLE[feature.__name__] = feature
    return feature


class Net(nn.Module):
    """A recurrent net written as a loop over words; `inside` is applied to each state."""

    def __init__(self) -> None:
        super().__init__()
        self.input = nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.inside: list[Callable[[Any, Any, int], Any]] = []

    def cell(self, x: Any, h: Any) -> Any:
        """The next state."""
        return torch.tanh(self.input(x) + self.hidden(h))

    def forward(self, x: Any) -> Any:
        """Scores of classes; x: (words, BATCH, WIDTH)."""
        h = x.new_zeros(x.shape[1], WIDTH)
        for t in range(x.shape[0]):
            h = self.cell(x[t], h)
            for change in self.inside:
                h = change(self, h, t)
        return self.head(h)


class Program:
    """A training step whose parts features may replace."""

    def __init__(self) -> None:
        self.net: Any = Net()
        self.optimizer: Callable[[Any], Any] = lambda p: torch.optim.SGD(p, lr=0.01)
        self.loss: Callable[[Any, Any, Any], Any] = lambda f, x, y: F.cross_entropy(f(x), y)
        self.batch: Callable[[], tuple[Any, Any]] = sentences
        self.wrap: Callable[[Any], Any] = lambda net: net
        self.before: list[Callable[[Any], Any]] = []  # of the net, at the begin of a step
        self.between: list[Callable[[Any], Any]] = []  # of the net, with gradients
        self.after: list[Callable[[Any], Any]] = []  # of the net, at the end of a step

    def step(self) -> Step:
        """The training step."""
        optimizer, function = self.optimizer(self.net.parameters()), self.wrap(self.net)

        def step() -> float:
            x, y = self.batch()
            for change in self.before:
                change(self.net)
            optimizer.zero_grad()
            loss = self.loss(function, x, y)
            loss.backward()
            for change in self.between:
                change(self.net)
            optimizer.step()
            for change in self.after:
                change(self.net)
            return float(loss.item())

        return step


def sentences() -> tuple[Any, Any]:
    """Words (n, BATCH, WIDTH) of a drawn length n, and classes."""
    n = DRAW.randint(5, 12)
    return torch.randn(n, BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,))


def step_of(names: Sequence[str]) -> Step:
    """The step of the base with these features; or the program of the only name.

    Raises KeyError for an unknown name, and for a whole program among further features.
    """
    if len(names) == 1 and names[0] in WHOLE:
        return WHOLE[names[0]]()
    program = Program()
    for name in names:
        if name in AROUND:
            AROUND[name](program)
    for name in names:
        if name in WORDS:
            program.net.inside.append(WORDS[name])
        elif name not in AROUND:
            raise KeyError(name)
    return program.step()


def combinations(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """So many drawn programs of two or three features that go together."""
    draw = random.Random(seed)
    changes = [name for name in AROUND if name not in OWN_NET]
    drawn: list[tuple[str, ...]] = []
    while len(drawn) < count:
        inside = draw.sample(sorted(WORDS), draw.randint(1, 2))
        drawn.append((*inside, draw.choice(changes)))
    return drawn


# -- reads in the middle ------------------------------------------------------------------------


@word
def read_number(net: Any, h: Any, t: int) -> Any:
    return h * (1.0 if h[0, 0].item() > 0 else 0.9)


@word
def read_condition(net: Any, h: Any, t: int) -> Any:
    return h * 0.95 if (h.abs() > 0.99).any() else h


@word
def read_array(net: Any, h: Any, t: int) -> Any:
    return h + 0.0 * float(h.detach().float().numpy()[0, 0])


@word
def read_list(net: Any, h: Any, t: int) -> Any:
    return h * (1.0 + 0.0 * sum(h[0].tolist()))


@word
def elements_in_a_loop(net: Any, h: Any, t: int) -> Any:
    total = 0.0
    for value in h[0, :5]:
        total = total + value
    return h + 0.01 * total


# -- indices, masks, writes ---------------------------------------------------------------------


@word
def mask_select(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h[h > 0].sum()


@word
def masked_select(net: Any, h: Any, t: int) -> Any:
    return h - 0.01 * torch.masked_select(h, h < 0).mean()


@word
def mask_write(net: Any, h: Any, t: int) -> Any:
    h = h.clone()
    h[h.abs() > 0.9] = 0.5
    return h


@word
def masked_fill(net: Any, h: Any, t: int) -> Any:
    return h.masked_fill(h > 0.9, 0.9)


@word
def nonzero_rows(net: Any, h: Any, t: int) -> Any:
    rows = h[:, 0].nonzero().squeeze(1)
    return h.index_add(0, rows, h[rows] * 0.01)


@word
def permute_rows(net: Any, h: Any, t: int) -> Any:
    return h[torch.arange(BATCH - 1, -1, -1)]


@word
def rows_by_a_list(net: Any, h: Any, t: int) -> Any:
    return h[[k ^ 1 for k in range(BATCH)]]


@word
def gather_columns(net: Any, h: Any, t: int) -> Any:
    return h.gather(1, (torch.arange(WIDTH) * 7 % WIDTH).expand(BATCH, WIDTH))


@word
def scatter_add_columns(net: Any, h: Any, t: int) -> Any:
    places = (torch.arange(WIDTH) // 2).expand(BATCH, WIDTH)
    return h + 0.1 * torch.zeros(BATCH, WIDTH).scatter_add(1, places, h)


@word
def slice_write(net: Any, h: Any, t: int) -> Any:
    h = h.clone()
    h[:, ::4] = 0.25
    return h


@word
def take_along(net: Any, h: Any, t: int) -> Any:
    return torch.take_along_dim(h, h.argsort(dim=1), dim=1)


@word
def segment_sums(net: Any, h: Any, t: int) -> Any:
    groups = torch.arange(BATCH) % 3
    return h + 0.1 * torch.zeros(3, WIDTH).index_add(0, groups, h)[groups]


@around
def state_buffer(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        states, h = torch.zeros(x.shape[0], BATCH, WIDTH), torch.zeros(BATCH, WIDTH)
        for t in range(x.shape[0]):
            h = net.cell(x[t], h)
            states[t] = h
        return F.cross_entropy(net.head(states.mean(0)), y)

    program.loss = loss


@around
def attention_to_the_past(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        states, h = [], torch.zeros(BATCH, WIDTH)
        for t in range(x.shape[0]):
            h = net.cell(x[t], h)
            states.append(h)
            past = torch.stack(states)
            h = h + ((past * h).sum(-1).softmax(0)[..., None] * past).sum(0)
        return F.cross_entropy(net.head(h), y)

    program.loss = loss


# -- ops beside the main road -------------------------------------------------------------------


@word
def top_values(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h.topk(4, 1)[0].mean(1, keepdim=True)


@word
def sorted_columns(net: Any, h: Any, t: int) -> Any:
    return h + 0.1 * h.sort(1)[0]


@word
def median_taken_off(net: Any, h: Any, t: int) -> Any:
    return h - h.median(1, keepdim=True)[0]


@word
def unique_values(net: Any, h: Any, t: int) -> Any:
    return h + 0.0 * torch.unique((h * 4).round()).numel()


@word
def running_sums(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h.cumsum(1)


@word
def log_sum_exp(net: Any, h: Any, t: int) -> Any:
    return h - 0.1 * h.logsumexp(1, keepdim=True)


@word
def softmax_of_columns(net: Any, h: Any, t: int) -> Any:
    return h.softmax(-1) * WIDTH / 4


@word
def layer_norm(net: Any, h: Any, t: int) -> Any:
    return F.layer_norm(h, (WIDTH,))


@word
def group_norm(net: Any, h: Any, t: int) -> Any:
    return F.group_norm(h, 4)


@word
def unit_length(net: Any, h: Any, t: int) -> Any:
    return F.normalize(h, dim=1) * 4


@word
def batched_products(net: Any, h: Any, t: int) -> Any:
    pair = torch.bmm(h.view(BATCH, 4, 8), h.view(BATCH, 8, 4))
    return h + 0.1 * pair.reshape(BATCH, 16).repeat(1, 2)


@word
def einsum_of_pairs(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * torch.einsum("bi,cj->bj", h, h)


@word
def distances(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * torch.cdist(h, h + 0.1).mean()


@word
def convolution(net: Any, h: Any, t: int) -> Any:
    return F.conv1d(h.view(BATCH, 1, WIDTH), h.new_ones(1, 1, 3) / 3, padding=1).view(BATCH, WIDTH)


@word
def transposed_convolution(net: Any, h: Any, t: int) -> Any:
    y = F.conv_transpose1d(h.view(BATCH, 2, 16), h.new_ones(2, 1, 2) / 2, stride=2)
    return y.view(BATCH, WIDTH)


@word
def pooling(net: Any, h: Any, t: int) -> Any:
    return h + 0.1 * F.max_pool1d(h[:, None], 3, 1, 1)[:, 0]


@word
def adaptive_pooling(net: Any, h: Any, t: int) -> Any:
    return h + 0.1 * F.adaptive_avg_pool1d(h[:, None], 8).repeat(1, 1, 4)[:, 0]


@word
def bilinear_resizing(net: Any, h: Any, t: int) -> Any:
    image = h.view(BATCH, 1, 4, 8)
    return F.interpolate(image, scale_factor=2, mode="bilinear")[:, 0, ::2, ::2].reshape(h.shape)


@word
def sampling_of_a_grid(net: Any, h: Any, t: int) -> Any:
    grid = torch.zeros(1, 4, 8, 2) + 0.1 * h.mean()
    return F.grid_sample(h.view(1, BATCH, 4, 8), grid, align_corners=False).view(BATCH, WIDTH)


@word
def padding_by_reflection(net: Any, h: Any, t: int) -> Any:
    return F.pad(h[:, None], (1, 1), mode="reflect")[:, 0, 1:-1]


@word
def windows_of_memory(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h.unfold(1, 4, 4).mean(2).repeat(1, 4)


@word
def strided_reads(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h.contiguous().as_strided((BATCH, WIDTH), (0, 1))


@word
def rolled_and_flipped(net: Any, h: Any, t: int) -> Any:
    return h.roll(3, 1).flip(1)


@word
def fourier_filter(net: Any, h: Any, t: int) -> Any:
    return torch.fft.irfft(0.9 * torch.fft.rfft(h, dim=1), n=WIDTH, dim=1)


@word
def complex_turns(net: Any, h: Any, t: int) -> Any:
    z = torch.complex(h[:, :16], h[:, 16:]) * torch.exp(1j * h[:, :16])
    return torch.cat([z.real, z.imag], 1)


@word
def integer_arithmetic(net: Any, h: Any, t: int) -> Any:
    k = (h * 50).long()
    return h + 1e-4 * ((k * 5 + 2) % 13).float()


@word
def solved_system(net: Any, h: Any, t: int) -> Any:
    return torch.linalg.solve(h @ h.t() + torch.eye(BATCH), h)


@word
def cholesky_factor(net: Any, h: Any, t: int) -> Any:
    return 0.1 * torch.linalg.cholesky(h @ h.t() + torch.eye(BATCH)) @ h


@word
def eigenvalues(net: Any, h: Any, t: int) -> Any:
    return h + 1e-3 * torch.linalg.eigvalsh(h @ h.t() + torch.eye(BATCH)).sum()


@word
def log_determinant(net: Any, h: Any, t: int) -> Any:
    return h + 1e-3 * torch.logdet(h @ h.t() + torch.eye(BATCH))


@word
def half_precision(net: Any, h: Any, t: int) -> Any:
    return (h.half() * 0.9).float()


# -- random numbers -----------------------------------------------------------------------------


@word
def noise(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * torch.randn_like(h)


@word
def dropout(net: Any, h: Any, t: int) -> Any:
    return F.dropout(h, 0.2)


@word
def sampled_normal(net: Any, h: Any, t: int) -> Any:
    return torch.distributions.Normal(h, 0.1).rsample()


@word
def sampled_categories(net: Any, h: Any, t: int) -> Any:
    choice = torch.distributions.Categorical(logits=h)
    return h + 0.01 * choice.log_prob(choice.sample()).mean()


@word
def gumbel_softmax(net: Any, h: Any, t: int) -> Any:
    return F.gumbel_softmax(h)


@word
def sampled_by_multinomial(net: Any, h: Any, t: int) -> Any:
    return h + 0.01 * h.gather(1, torch.multinomial(h.softmax(1).detach(), 2)).mean()


# -- gradients by the user ----------------------------------------------------------------------


class Straight(torch.autograd.Function):
    """Rounds; the gradient goes straight through."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 1)


@word
def own_function(net: Any, h: Any, t: int) -> Any:
    return Straight.apply(h)


@word
def tensor_hook(net: Any, h: Any, t: int) -> Any:
    h.register_hook(lambda g: g.clamp(-1, 1))
    return h


@word
def retained_gradient(net: Any, h: Any, t: int) -> Any:
    h.retain_grad()
    return h


@word
def checkpointed_part(net: Any, h: Any, t: int) -> Any:
    return torch.utils.checkpoint.checkpoint(
        lambda x: torch.tanh(net.hidden(x)), h, use_reentrant=False
    )


@around
def module_hooks(program: Program) -> None:
    seen: list[int] = []
    program.net.input.register_forward_hook(lambda m, i, o: seen.append(1) if not seen else None)
    program.net.hidden.register_full_backward_hook(lambda m, i, o: None)


@around
def saved_tensors_hooks(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v):
            return F.cross_entropy(net(x), y)

    program.loss = loss


@around
def gradient_penalty(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        x.requires_grad_()
        scores = net(x)
        (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
        return F.cross_entropy(scores, y) + slope.square().mean()

    program.loss = loss


@around
def truncated_passes(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        h, total = torch.zeros(BATCH, WIDTH), 0.0
        for t in range(x.shape[0]):
            h = net.cell(x[t], h if t % 3 else h.detach())
            total = total + F.cross_entropy(net.head(h), y)
        return total

    program.loss = loss


@around
def kept_graph(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        first = F.cross_entropy(net(x), y)
        (0.5 * first).backward(retain_graph=True)
        return first

    program.loss = loss


# -- optimizers, and what stands beside them ----------------------------------------------------


def _optimizer(name: str, make: Callable[[Any], Any]) -> None:
    AROUND[name] = lambda program: setattr(program, "optimizer", make)


_optimizer("momentum", lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True))
_optimizer("adam", lambda p: torch.optim.Adam(p, lr=1e-3))
_optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True))
_optimizer("rmsprop", lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True))
_optimizer("adagrad", torch.optim.Adagrad)
_optimizer("adadelta", torch.optim.Adadelta)
_optimizer("radam", torch.optim.RAdam)
_optimizer("rprop", torch.optim.Rprop)


@around
def clipped_gradients(program: Program) -> None:
    program.between.append(lambda net: nn.utils.clip_grad_norm_(net.parameters(), 0.5))


@around
def logged_norms(program: Program) -> None:
    program.between.append(lambda net: [p.grad.norm().item() for p in net.parameters()])


@around
def noisy_gradients(program: Program) -> None:
    def change(net: Any) -> None:
        for p in net.parameters():
            p.grad.add_(torch.randn_like(p.grad), alpha=1e-3)

    program.between.append(change)


@around
def average_of_weights(program: Program) -> None:
    average = torch.optim.swa_utils.AveragedModel(program.net)
    program.after.append(average.update_parameters)


@around
def copied_state(program: Program) -> None:
    program.after.append(lambda net: {k: v.clone() for k, v in net.state_dict().items()})


@around
def clamped_weights(program: Program) -> None:
    def change(net: Any) -> None:
        with torch.no_grad():
            for p in net.parameters():
                p.clamp_(-1, 1)

    program.after.append(change)


@around
def frozen_at_times(program: Program) -> None:
    program.before.append(lambda net: net.input.requires_grad_(DRAW.random() < 0.5))


@around
def switched_modes(program: Program) -> None:
    program.before.append(lambda net: net.train(DRAW.random() < 0.5))


# -- losses, types, wrappers --------------------------------------------------------------------


def _loss(name: str, loss: Callable[[Any, Any, Any], Any]) -> None:
    AROUND[name] = lambda program: setattr(program, "loss", loss)


_loss("smoothed_labels", lambda f, x, y: F.cross_entropy(f(x), y, label_smoothing=0.1))
_loss("kl_divergence", lambda f, x, y: F.kl_div(
    f(x).log_softmax(1), f(x * 0.5).softmax(1).detach(), reduction="batchmean"))  # fmt: skip
_loss("triplets", lambda f, x, y: F.triplet_margin_loss(f(x), f(x * 0.9), f(-x)))
_loss("binary_targets", lambda f, x, y: F.binary_cross_entropy_with_logits(
    f(x), F.one_hot(y, CLASSES).float()))  # fmt: skip
_loss("pairs_in_a_loop", lambda f, x, y: sum(
    (a - b).square().sum() for a, b in zip(f(x), f(x * 0.5), strict=True)))  # fmt: skip
_loss("no_grad_target", lambda f, x, y: F.smooth_l1_loss(f(x), f(x).detach() + 1))


@around
def autocast(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            scores = net(x)
        return F.cross_entropy(scores.float(), y)

    program.loss = loss


@around
def double_precision(program: Program) -> None:
    program.net.double()
    program.batch = lambda: tuple(  # type: ignore[assignment,return-value]
        v.double() if v.is_floating_point() else v for v in sentences()
    )


@around
def compiled(program: Program) -> None:
    program.wrap = torch.compile


@around
def anomaly_mode(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            return F.cross_entropy(net(x), y)

    program.loss = loss


@around
def named_ranges(program: Program) -> None:
    def loss(net: Any, x: Any, y: Any) -> Any:
        with torch.autograd.profiler.record_function("forward"):
            return F.cross_entropy(net(x), y)

    program.loss = loss


# -- modules ------------------------------------------------------------------------------------

#: Changes that replace the net: features of words do not go together with these.
OWN_NET: set[str] = set()


def net(make: Any) -> Any:
    """Register a change of the program that replaces the net."""
    OWN_NET.add(make.__name__)
    AROUND[make.__name__] = lambda program: setattr(program, "net", make())
    return make


class Layers(nn.Module):
    """A layer of `torch.nn` over words, and a head over the last state."""

    def __init__(self, layer: Any, width: int = WIDTH) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        """Scores of classes; x: (words, BATCH, WIDTH)."""
        y = self.layer(x)
        return self.head((y[0] if isinstance(y, tuple) else y)[-1])


@net
def lstm() -> Any:
    return Layers(nn.LSTM(WIDTH, WIDTH))


@net
def gru_both_ways() -> Any:
    return Layers(nn.GRU(WIDTH, WIDTH, bidirectional=True), 2 * WIDTH)


@net
def transformer() -> Any:
    return Layers(nn.TransformerEncoderLayer(WIDTH, 4, 64))


@net
def packed_sequences() -> Any:
    class Packed(Layers):
        def forward(self, x: Any) -> Any:
            lengths = torch.tensor([DRAW.randint(2, x.shape[0]) for _ in range(BATCH)])
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            return self.head(self.layer(packed)[1][0][-1])

    return Packed(nn.LSTM(WIDTH, WIDTH))


class Extra(Net):
    """A net with a further module at each word."""

    def __init__(self, extra: Any) -> None:
        super().__init__()
        self.extra = extra
        self.inside.append(lambda net, h, t: net.extra(h))


@net
def batch_norm() -> Any:
    return Extra(nn.BatchNorm1d(WIDTH))


@net
def spectral_norm() -> Any:
    return Extra(torch.nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)))


@net
def weight_norm() -> Any:
    return Extra(torch.nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)))


@net
def cells_of_lstm() -> Any:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Any) -> Any:
            state = None
            for row in x:
                state = self.cell(row, state)
            return self.head(state[0])  # type: ignore[index]

    return Cells()


@net
def experts() -> Any:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, h: Any) -> Any:
            choice, y = h[:, :4].argmax(1), torch.zeros_like(h)
            for k, expert in enumerate(self.experts):
                mask = choice == k
                if mask.any():
                    y[mask] = torch.tanh(expert(h[mask]))
            return y

    return Extra(Experts())


class Lookup(nn.Module):
    """Words of a table before the net."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.table, self.net = nn.Embedding(VOCABULARY, WIDTH, **settings), Net()

    def forward(self, x: Any) -> Any:
        """Scores of classes; x: (words, BATCH), of int64."""
        return self.net(self.table(x))


def _lookup(name: str, **settings: Any) -> None:
    def change(program: Program) -> None:
        program.net = Lookup(**settings)
        program.batch = lambda: (
            torch.randint(0, VOCABULARY, (DRAW.randint(5, 12), BATCH)),
            torch.randint(0, CLASSES, (BATCH,)),
        )

    AROUND[name] = change
    OWN_NET.add(name)


_lookup("table_of_words")
_lookup("sparse_table", sparse=True)
_lookup("table_of_limited_norm", max_norm=1.0)


# -- programs of their own ----------------------------------------------------------------------


def _trained(net: Any, loss_of: Callable[[Any], Any]) -> Step:
    """A step of SGD on a loss that is drawn anew."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(net)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


@whole
def base() -> Step:
    return Program().step()


@whole
def sums_over_four_batches() -> Step:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        total = 0.0
        for _ in range(4):
            x, y = sentences()
            loss = F.cross_entropy(net(x), y) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step


@whole
def sums_read_at_the_end() -> Step:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        for _ in range(4):
            x, y = sentences()
            loss = F.cross_entropy(net(x), y) / 4
            loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


@whole
def parser_with_a_stack() -> Step:
    def loss(net: Any) -> Any:
        waiting = [torch.randn(1, WIDTH) for _ in range(DRAW.randint(4, 9))]
        stack: list[Any] = []
        while waiting or len(stack) > 1:
            if len(stack) > 1 and (not waiting or DRAW.random() < 0.5):
                right, left = stack.pop(), stack.pop()
                stack.append(net.cell(left, right))
            else:
                stack.append(waiting.pop())
        return F.cross_entropy(net.head(stack[0]), torch.tensor([1]))

    return _trained(Net(), loss)


@whole
def drawn_depth() -> Step:
    def loss(layers: Any) -> Any:
        x = torch.randn(BATCH, WIDTH)
        for layer in layers:
            if DRAW.random() < 0.6:
                x = x + torch.relu(layer(x))
        return x.square().mean()

    return _trained(nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(12)), loss)


@whole
def drawn_tree() -> Step:
    def state(net: Any, depth: int) -> Any:
        if depth == 0 or DRAW.random() < 0.3:
            return torch.randn(1, WIDTH)
        return net.cell(state(net, depth - 1), state(net, depth - 1))

    return _trained(Net(), lambda net: net.head(state(net, 5)).square().mean())


@whole
def early_exits() -> Step:
    def loss(net: Any) -> Any:
        h = torch.zeros(1, WIDTH)
        for _ in range(12):
            h = net.cell(torch.randn(1, WIDTH), h)
            if h.mean().item() > 0.05:
                break
        return net.head(h).square().mean()

    return _trained(Net(), loss)


@whole
def beams() -> Step:
    def loss(net: Any) -> Any:
        h, scores = torch.zeros(1, WIDTH), torch.zeros(1)
        for _ in range(6):
            options = scores[:, None] + net.head(h).log_softmax(1)
            scores, places = options.flatten().topk(min(3, options.numel()))
            h = net.cell(torch.randn(len(places), WIDTH), h[places // CLASSES])
        return -scores.max()

    return _trained(Net(), loss)


@whole
def fixed_point() -> Step:
    def loss(net: Any) -> Any:
        x, h = torch.randn(BATCH, WIDTH), torch.zeros(BATCH, WIDTH)
        for _ in range(30):
            after = net.cell(x, h * 0.3)
            if (after - h).abs().max() < 1e-2:
                break
            h = after
        return net.head(h).square().mean()

    return _trained(Net(), loss)


@whole
def growing_net() -> Step:
    layers = nn.Sequential(nn.Linear(WIDTH, WIDTH))
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        if count % 50 == 0 and len(layers) < 16:
            layers.append(nn.Linear(WIDTH, WIDTH))
        loss = layers(torch.randn(BATCH, WIDTH)).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in layers.parameters():
                p -= 0.01 * p.grad
                p.grad = None
        return float(loss.item())

    return step


@whole
def two_nets_by_turns() -> Step:
    maker, judge = Net(), nn.Sequential(nn.Linear(CLASSES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    first = torch.optim.Adam(maker.parameters(), lr=1e-3)
    second = torch.optim.Adam(judge.parameters(), lr=1e-3)

    def step() -> float:
        x, _ = sentences()
        second.zero_grad()
        (judge(maker(x).detach()).mean() - judge(torch.randn(BATCH, CLASSES)).mean()).backward()
        second.step()
        first.zero_grad()
        loss = -judge(maker(x)).mean()
        loss.backward()
        first.step()
        return float(loss.item())

    return step


@whole
def solver_with_a_closure() -> Step:
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

    def step() -> float:
        x, y = sentences()

        def closure() -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return float(optimizer.step(closure))

    return step


@whole
def inner_step() -> Step:
    def loss(net: Any) -> Any:
        x, y = sentences()
        weights = dict(net.named_parameters())
        before = F.cross_entropy(torch.func.functional_call(net, weights, (x,)), y)
        slopes = torch.autograd.grad(before, list(weights.values()), create_graph=True)
        moved = {name: p - 0.1 * g for (name, p), g in zip(weights.items(), slopes, strict=True)}
        return F.cross_entropy(torch.func.functional_call(net, moved, (x,)), y)

    return _trained(Net(), loss)


@whole
def gradients_of_examples() -> Step:
    net = Net()

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        scores = torch.func.functional_call(net, weights, (x[:, None],))
        return F.cross_entropy(scores, y[None])

    def step() -> float:
        x, y = sentences()
        weights = {name: p.detach() for name, p in net.named_parameters()}
        slopes = torch.func.vmap(torch.func.grad(loss_of), (None, 1, 0))(weights, x, y)
        with torch.no_grad():
            for name, p in net.named_parameters():
                p -= 0.01 * slopes[name].mean(0)
        return float(slopes["head.bias"].sum().item())

    return step


@whole
def aligned_labels() -> Step:
    def loss(net: Any) -> Any:
        x, _ = sentences()
        labels = torch.randint(1, 5, (BATCH, 3))
        lengths = torch.full((BATCH,), x.shape[0])
        scores = net(x).log_softmax(2)
        return F.ctc_loss(scores, labels, lengths, torch.full((BATCH,), 2))

    return _trained(nn.Linear(WIDTH, 5), loss)


@whole
def policy_gradient() -> Step:
    def loss(net: Any) -> Any:
        h, total = torch.zeros(1, WIDTH), 0.0
        for _ in range(DRAW.randint(3, 8)):
            h = net.cell(torch.randn(1, WIDTH), h)
            policy = torch.distributions.Categorical(logits=net.head(h))
            action = policy.sample()
            total = total - policy.log_prob(action).sum() * float(action.item() == 0)
        return total + 0.0 * h.sum()

    return _trained(Net(), loss)


# -- look-ups with sparse gradients ----------------------------------------------------------------


class Reader(nn.Module):
    """A net that looks up the words of a sentence one by one; words: numbers (n,)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.table, self.net = nn.Embedding(VOCABULARY, WIDTH, sparse=True, **settings), Net()

    def forward(self, words: Any) -> Any:
        """Scores of classes (1, CLASSES)."""
        h = torch.zeros(1, WIDTH)
        for k in range(len(words)):
            h = self.net.cell(self.table(words[k : k + 1]), h)
        return self.net.head(h)


class Bags(nn.Module):
    """Sums or means of the rows of each sentence's words, before a linear layer."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(VOCABULARY, WIDTH, **settings)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: Any, starts: Any) -> Any:
        """Scores of classes (sentences, CLASSES); starts: where each sentence begins."""
        return self.head(torch.tanh(self.table(words, starts)))


def _apart(net: Any, table: Callable[[Any], Any], rest: Callable[[Any], Any]) -> list[Any]:
    """An optimizer of the net's table, and one of the other parameters."""
    others = [p for p in net.parameters() if p is not net.table.weight]
    return [table([net.table.weight]), rest(others)]


def _read_one_by_one(
    optimizers: Callable[[Any], list[Any]], batches: int = 1, **settings: Any
) -> Step:
    """Training on sentences of different lengths, a look-up a word."""
    net = Reader(**settings)
    steppers = optimizers(net)

    def step() -> float:
        for optimizer in steppers:
            optimizer.zero_grad()
        for _ in range(batches):
            texts = [torch.randint(0, VOCABULARY, (DRAW.randint(5, 12),)) for _ in range(BATCH)]
            scores = torch.cat([net(words) for words in texts])
            loss = F.cross_entropy(scores, torch.randint(0, CLASSES, (BATCH,)))
            loss.backward()
        for optimizer in steppers:
            optimizer.step()
        return float(loss.item())

    return step


def _sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.01)


def _momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=1e-3)


def _sparse_adam(parameters: Any) -> Any:
    return torch.optim.SparseAdam(parameters, lr=1e-3)


@whole
def words_one_by_one() -> Step:
    return _read_one_by_one(lambda net: [_sgd(net.parameters())])


@whole
def words_by_sparse_adam() -> Step:
    return _read_one_by_one(lambda net: _apart(net, _sparse_adam, _adam))


@whole
def words_by_adagrad() -> Step:
    return _read_one_by_one(lambda net: [torch.optim.Adagrad(net.parameters(), lr=0.01)])


@whole
def words_of_four_batches() -> Step:
    return _read_one_by_one(lambda net: _apart(net, _sparse_adam, _adam), batches=4)


@whole
def words_with_momentum() -> Step:
    return _read_one_by_one(
        lambda net: _apart(net, lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), _adam)
    )


@whole
def words_with_padding() -> Step:
    return _read_one_by_one(lambda net: _apart(net, _sparse_adam, _adam), padding_idx=0)


@whole
def words_of_limited_norm() -> Step:
    return _read_one_by_one(lambda net: _apart(net, _sparse_adam, _adam), max_norm=1.0)


def _bags(optimizers: Callable[[Any], list[Any]], **settings: Any) -> Step:
    """Training on sentences of different lengths, as bags of words."""
    net = Bags(**settings)
    steppers = optimizers(net)

    def step() -> float:
        for optimizer in steppers:
            optimizer.zero_grad()
        lengths = [DRAW.randint(5, 12) for _ in range(BATCH)]
        starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
        words = torch.randint(0, VOCABULARY, (sum(lengths),))
        loss = F.cross_entropy(net(words, starts), torch.randint(0, CLASSES, (BATCH,)))
        loss.backward()
        for optimizer in steppers:
            optimizer.step()
        return float(loss.item())

    return step


@whole
def bags_of_words() -> Step:
    return _bags(lambda net: [_adam(net.parameters())], mode="mean")


@whole
def sparse_bags() -> Step:
    return _bags(lambda net: [_sgd(net.parameters())], mode="sum", sparse=True)


@whole
def sparse_bags_by_adam() -> Step:
    return _bags(lambda net: _apart(net, _sparse_adam, _adam), mode="mean", sparse=True)


@whole
def sparse_table_by_adam() -> Step:
    net = Lookup(sparse=True)
    steppers = _apart(net, _sparse_adam, _adam)

    def step() -> float:
        for optimizer in steppers:
            optimizer.zero_grad()
        words = torch.randint(0, VOCABULARY, (DRAW.randint(5, 12), BATCH))
        loss = F.cross_entropy(net(words), torch.randint(0, CLASSES, (BATCH,)))
        loss.backward()
        for optimizer in steppers:
            optimizer.step()
        return float(loss.item())

    return step
