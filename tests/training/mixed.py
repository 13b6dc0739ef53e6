"""Models of several parts: with noise, with optimisers of their own, or chosen by values."""

from __future__ import annotations

from typing import Any

import numpy as np

from training.tasks import Batch, Task


def _noisy(rng: np.random.Generator, size: int) -> Batch:
    return {"x": rng.random((size, 6)), "noise": rng.normal(size=(size, 2))}


def _vae(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class VAE(nn.Module):  # type: ignore[misc]
        """Reconstruction by a Bernoulli decoder, and the divergence from a normal prior."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(6, 5), nn.Tanh())
            self.mean, self.spread = nn.Linear(5, 2), nn.Linear(5, 2)
            self.decoder = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 6))

        def loss(self, x: Any, noise: Any) -> Any:
            h = self.encoder(x)
            mean, spread = self.mean(h), self.spread(h)
            z = mean + noise * t.exp(0.5 * spread)
            rebuilt = functional.binary_cross_entropy_with_logits(
                self.decoder(z), x, reduction="sum"
            )
            divergence = -0.5 * t.sum(1 + spread - mean.pow(2) - spread.exp())
            return (rebuilt + divergence) / x.shape[0]

    return VAE()


def _gan(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class GAN(nn.Module):  # type: ignore[misc]
        """Two networks with an optimiser each."""

        def __init__(self) -> None:
            super().__init__()
            self.maker = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 6))
            self.judge = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.2), nn.Linear(5, 1))

        def judged(self, x: Any, real: bool) -> Any:
            found = self.judge(x)
            wanted = t.ones_like(found) if real else t.zeros_like(found)
            return functional.binary_cross_entropy_with_logits(found, wanted)

        def judge_loss(self, x: Any, noise: Any) -> Any:
            return self.judged(x, True) + self.judged(self.maker(noise).detach(), False)

        def maker_loss(self, x: Any, noise: Any) -> Any:
            return self.judged(self.maker(noise), True)

    return GAN()


def _episode(rng: np.random.Generator, size: int) -> Batch:
    return {"start": rng.normal(size=(1, 3)), "chance": rng.random(size).tolist()}


def _actor_critic(t: Any) -> Any:
    nn, functional = t.nn, t.nn.functional

    class ActorCritic(nn.Module):  # type: ignore[misc]
        """An episode whose steps, and whose end, follow what the policy chooses."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(3, 5)
            self.policy, self.value = nn.Linear(5, 2), nn.Linear(5, 1)

        def loss(self, start: Any, chance: Any) -> Any:
            place, chosen, values, rewards = start, [], [], []
            for drawn in chance:
                h = t.tanh(self.body(place))
                logs = functional.log_softmax(self.policy(h), -1)
                action = int(drawn > logs[0, 0].exp().item())
                chosen.append(logs[0, action])
                values.append(self.value(h).squeeze())
                place = place * 0.9 + (0.3 if action else -0.3)
                rewards.append(-place.abs().sum().item())
                if place[0, 0].item() > 1.5 and len(chosen) > 2:
                    break
            wanted, future = [], 0.0
            for reward in reversed(rewards):
                future = reward + 0.9 * future
                wanted.insert(0, future)
            target = t.tensor(wanted, dtype=start.dtype)
            value = t.stack(values)
            advantage = target - value.detach()
            policy_loss = -(t.stack(chosen) * advantage).mean()
            return policy_loss + functional.smooth_l1_loss(value, target)

    return ActorCritic()


def _points(rng: np.random.Generator, size: int) -> Batch:
    return {"x": rng.normal(size=(size, 4)), "y": rng.normal(size=(size, 2))}


def _experts(by_mask: bool) -> Any:
    def make(t: Any) -> Any:
        nn, functional = t.nn, t.nn.functional

        class Experts(nn.Module):  # type: ignore[misc]
            """Each example goes through the expert that a gate chooses for it.

            by_mask: one call for all of an expert's examples, put back by a mask
            """

            def __init__(self) -> None:
                super().__init__()
                self.gate = nn.Linear(4, 3)
                self.experts = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

            def routed(self, x: Any, gates: Any) -> Any:
                if not by_mask:
                    rows = []
                    for row, gate in zip(x, gates, strict=True):
                        k = int(gate.argmax().item())
                        rows.append(t.tanh(self.experts[k](row)) * gate[k])
                    return t.stack(rows)
                out = t.zeros(x.shape[0], 2, dtype=x.dtype)
                choice = gates.argmax(1)
                for k, expert in enumerate(self.experts):
                    mask = choice == k
                    if mask.any():
                        out[mask] = t.tanh(expert(x[mask])) * gates[mask, k].unsqueeze(1)
                return out

            def loss(self, x: Any, y: Any) -> Any:
                gates = t.softmax(self.gate(x), 1)
                return functional.mse_loss(self.routed(x, gates), y)

        return Experts()

    return make


TASKS = {
    "vae": Task(_vae, _noisy),
    "gan": Task(_gan, _noisy, (("judge_loss", "judge."), ("maker_loss", "maker."))),
    "actor_critic": Task(_actor_critic, _episode),
    "experts": Task(_experts(False), _points),
    "masked_experts": Task(_experts(True), _points),
}
