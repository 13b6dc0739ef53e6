"""Operations off the main road, random numbers, types of numbers, losses."""

from __future__ import annotations

from typing import Any

from steps.common import CLASSES, ROWS, WIDTH, Chain, Data, Step, feature, of_states, sgd, training

import wend as torch
from wend import nn
from wend.nn import functional as F


@of_states
def largest_elements(h: Any) -> Any:
    return h + h.topk(2, dim=1).values.sum(1, keepdim=True) * 0.01


@of_states
def medians(h: Any) -> Any:
    return h - h.median(dim=1, keepdim=True).values


@of_states
def sorted_rows(h: Any) -> Any:
    return h.sort(dim=1).values


@of_states
def running_sums(h: Any) -> Any:
    return h.cumsum(1) * 0.2


@of_states
def unique_values(h: Any) -> Any:
    return h * (1 + torch.unique((h * 4).long()).numel() * 0.001)


@of_states
def batched_products(h: Any) -> Any:
    return torch.bmm(h.view(ROWS, 4, 4), h.view(ROWS, 4, 4)).view(ROWS, WIDTH) * 0.3


@of_states
def einsum_of_three(h: Any) -> Any:
    m = h.view(ROWS, 4, 4)
    return torch.einsum("bij,bjk,bkl->bil", m, m, m).reshape(ROWS, WIDTH) * 0.3


@of_states
def distances_of_pairs(h: Any) -> Any:
    return h + torch.cdist(h, h[:2]).mean() * 0.01


@of_states
def softmax_of_states(h: Any) -> Any:
    return h.softmax(1) * 4


@of_states
def logsumexp_of_states(h: Any) -> Any:
    return h - h.logsumexp(1, keepdim=True) * 0.1


@of_states
def layer_norm_of_states(h: Any) -> Any:
    return F.layer_norm(h, (WIDTH,))


@of_states
def convolution_in_three_dims(h: Any) -> Any:
    kernel = torch.full((1, 1, 2, 3, 1), 0.2)
    return F.conv3d(h.view(ROWS, 1, 2, 4, 2), kernel, padding=(1, 1, 0))[:, :, :2].reshape(h.shape)


@of_states
def resized_images(h: Any) -> Any:
    large = F.interpolate(h.view(ROWS, 1, 4, 4), scale_factor=2, mode="bilinear")
    return F.avg_pool2d(large, 2).view(ROWS, WIDTH)


@of_states
def sampled_images(h: Any) -> Any:
    grid = torch.linspace(-0.9, 0.9, 2 * WIDTH).view(1, 4, 4, 2).expand(ROWS, 4, 4, 2)
    image = h.view(ROWS, 1, 4, 4)
    return F.grid_sample(image, grid + h.mean() * 0.1, align_corners=False).view(ROWS, WIDTH)


@of_states
def solution_of_equations(h: Any) -> Any:
    return torch.linalg.solve(h @ h.mT + 2 * torch.eye(ROWS), h)


@of_states
def cholesky_factor(h: Any) -> Any:
    return torch.linalg.cholesky(h @ h.mT + 2 * torch.eye(ROWS)) @ h * 0.2


@of_states
def singular_values(h: Any) -> Any:
    return h / (1 + torch.linalg.svdvals(h)[0])


@of_states
def eigenvalues(h: Any) -> Any:
    return h + torch.linalg.eigvalsh(h @ h.mT + torch.eye(ROWS)).max() * 0.01


@of_states
def log_determinant(h: Any) -> Any:
    return h + torch.logdet(h @ h.mT + torch.eye(ROWS)) * 0.001


@of_states
def fourier_filter(h: Any) -> Any:
    return torch.fft.irfft(torch.fft.rfft(h, dim=1) * 0.8, n=WIDTH, dim=1)


@of_states
def rotation_by_complex_numbers(h: Any) -> Any:
    turned = torch.view_as_complex(h.reshape(ROWS, WIDTH // 2, 2)) * (0.8 + 0.6j)
    return torch.view_as_real(turned).reshape(ROWS, WIDTH)


@of_states
def complex_exponential(h: Any) -> Any:
    z = torch.complex(h[:, :8], h[:, 8:])
    z = z * torch.exp(1j * z.imag)
    return torch.cat([z.real, z.imag], 1)


@of_states
def arithmetic_of_integers(h: Any) -> Any:
    codes = (h * 50).long()
    return h + ((codes * 5 + 1) % 7 ^ 3).float() * 0.001


# -- random numbers -------------------------------------------------------------------------------


@of_states
def added_noise(h: Any) -> Any:
    return h + 0.01 * torch.randn_like(h)


@of_states
def dropout_of_states(h: Any) -> Any:
    return F.dropout(h, 0.2, training=True)


@of_states
def sampled_classes(h: Any) -> Any:
    found = torch.distributions.Categorical(logits=h)
    return h + found.log_prob(found.sample()).mean() * 0.01


@of_states
def reparameterised_sample(h: Any) -> Any:
    return torch.distributions.Normal(h, 0.2).rsample()


@of_states
def gumbel_softmax(h: Any) -> Any:
    return F.gumbel_softmax(h, tau=2.0)


# -- types ----------------------------------------------------------------------------------------


@feature
def mixed_precision() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            scores = net(words)
        return F.cross_entropy(scores.float(), classes)

    return training(loss=loss)


@feature
def bfloat16_net() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        return F.cross_entropy(net(words.bfloat16()).float(), classes)

    return training(Chain().bfloat16(), loss)


@feature
def double_net() -> Step:
    return training(Chain().double(), lambda net, x, y: F.cross_entropy(net(x.double()), y))


# -- losses ---------------------------------------------------------------------------------------


@feature
def smoothed_labels() -> Step:
    return training(loss=lambda net, x, y: F.cross_entropy(net(x), y, label_smoothing=0.2))


@feature
def divergence() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        target = net(words * 0.7).softmax(1).detach()
        return F.kl_div(net(words).log_softmax(1), target, reduction="batchmean")

    return training(loss=loss)


@feature
def triplets() -> Step:
    return training(loss=lambda net, x, y: F.triplet_margin_loss(net(x), net(x * 0.8), net(-x)))


@feature
def loop_over_pairs() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        pairs = zip(net(words), net(words * 0.6), strict=True)
        return sum((a - b).square().sum() for a, b in pairs)

    return training(loss=loss)


@feature
def binary_and_huber() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        scores, wanted = net(words), F.one_hot(classes, CLASSES).float()
        two = F.binary_cross_entropy_with_logits(scores, wanted)
        return two + F.smooth_l1_loss(scores, wanted)

    return training(loss=loss)


@feature
def connectionist_loss() -> Step:
    net, data = nn.Linear(WIDTH, 5), Data()
    optimizer = sgd(net.parameters())

    def step() -> Any:
        words, _ = data.sentences()
        lengths = torch.full((ROWS,), len(words)), torch.full((ROWS,), 2)
        said = data.integers(4, ROWS, 2) + 1
        loss = F.ctc_loss(net(words).log_softmax(2), said, *lengths, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@feature
def layers_with_a_state() -> Step:
    part = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Dropout(0.1), nn.GELU())
    return training(Chain(lambda net, h: net.part(h), part))
