"""Distributions: a variational autoencoder's loss, sampling, a policy gradient."""

from __future__ import annotations

import wend as torch
from wend import Tensor, distributions, nn
from wend.distributions import Categorical, Independent, Normal, kl_divergence


class Encoder(nn.Module):
    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(features, 2 * width)

    def forward(self, x: Tensor) -> Independent:
        mean, log_std = self.both(x).chunk(2, dim=-1)
        return Independent(Normal(mean, log_std.exp()), 1)


class Vae(nn.Module):
    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.encoder = Encoder(features, width)
        self.decoder = nn.Linear(width, features)
        self.width = width

    def loss(self, x: Tensor) -> Tensor:
        posterior = self.encoder(x)
        prior = Independent(Normal(torch.zeros(self.width), torch.ones(self.width)), 1)
        code = posterior.rsample()
        likelihood = Normal(self.decoder(code), 1.0).log_prob(x).sum(dim=-1)
        return (kl_divergence(posterior, prior) - likelihood).mean()


def reinforce(scores: Tensor, rewards: Tensor) -> Tensor:
    policy = Categorical(logits=scores)
    action = policy.sample()
    return -(policy.log_prob(action) * rewards[action]).mean() - 0.01 * policy.entropy().mean()


def main() -> None:
    torch.manual_seed(0)
    vae = Vae(6, 2)
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2)
    x = torch.randn(8, 6)
    loss = vae.loss(x)
    for _ in range(3):
        optimizer.zero_grad()
        loss = vae.loss(x)
        loss.backward()
        optimizer.step()
    print(loss.item() > 0)
    scores = torch.zeros(4, 3, requires_grad=True)
    reinforce(scores, torch.tensor([1.0, 0.0, -1.0])).backward()
    print(scores.grad is not None)
    beta = distributions.Beta(torch.tensor([2.0]), torch.tensor([3.0]))
    mixed = distributions.MixtureSameFamily(
        Categorical(torch.ones(2)), Normal(torch.tensor([-1.0, 1.0]), torch.ones(2))
    )
    print(beta.mean.item(), mixed.sample((3,)).shape, mixed.log_prob(torch.zeros(2)).shape)
    print(distributions.Bernoulli(0.5).sample((2, 2)).shape, beta.support)


if __name__ == "__main__":
    main()
