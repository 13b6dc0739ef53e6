"""gpytorch, pyro, botorch, torchvision's Python parts, torch-geometric's, e3nn."""

import pytest


@pytest.mark.library("gpytorch")
def test_gpytorch(library, torch, falls):
    """Training and predictions of an exact Gaussian process."""
    gpytorch = library("gpytorch")

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, likelihood)
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    falls(model.parameters(), lambda: -bound(model(x), y), steps=30, lr=0.1)
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        found = likelihood(model(x))
    assert (found.mean - y).abs().max() < 0.3


@pytest.mark.library("pyro-ppl")
def test_pyro(library, torch):
    """Variational inference with an automatic guide."""
    pyro = library("pyro")
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO

    data = torch.randn(50) + 3

    def model():
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        with pyro.plate("data", 50):
            pyro.sample("x", dist.Normal(mean, 1.0), obs=data)

    guide = pyro.infer.autoguide.AutoNormal(model)
    pyro.clear_param_store()
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    losses = [svi.step() for _ in range(100)]
    assert losses[-1] < losses[0]
    assert abs(guide.median()["mean"].item() - data.mean().item()) < 0.5


@pytest.mark.library("torchvision")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "vit_b_16", "squeezenet1_1"])
def test_models_of_torchvision(library, torch, name):
    """Gradients of ResNet, MobileNet, ViT and SqueezeNet."""
    models = library("torchvision.models")
    size = 224 if name == "vit_b_16" else 64
    more = {"num_layers": 1} if name == "vit_b_16" else {}
    if more:
        model = models.VisionTransformer(32, 16, 1, 4, 32, 64, num_classes=5)
        size = 32
    else:
        model = getattr(models, name)(num_classes=5)
    x = torch.randn(2, 3, size, size)
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 2]))
    loss.backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


@pytest.mark.library("torchvision")
def test_transforms_of_torchvision(library, torch):
    """Transforms v2."""
    v2 = library("torchvision.transforms.v2")
    change = v2.Compose(
        [
            v2.RandomResizedCrop((16, 16), antialias=True),
            v2.RandomHorizontalFlip(1.0),
            v2.ColorJitter(0.2, 0.2),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    y = change(image)
    assert y.shape == (3, 16, 16) and y.dtype is torch.float32
    flipped = v2.functional.horizontal_flip(image)
    assert torch.equal(flipped, image.flip(-1))
    assert v2.functional.rotate(image, 90).shape == image.shape


@pytest.mark.library("torch-geometric")
def test_torch_geometric(library, torch, falls):
    """Training of `GCNConv` and `GATConv` over batches of graphs."""
    library("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    graphs = [
        Data(x=torch.randn(4, 3), edge_index=edges, y=torch.tensor([i % 2])) for i in range(8)
    ]
    batch = next(iter(DataLoader(graphs, batch_size=8)))
    first, second = GCNConv(3, 16), GATConv(16, 2)

    def loss():
        h = second(first(batch.x, batch.edge_index).relu(), batch.edge_index)
        return torch.nn.functional.cross_entropy(global_mean_pool(h, batch.batch), batch.y)

    falls([*first.parameters(), *second.parameters()], loss, steps=10)


@pytest.mark.library("botorch")
def test_botorch(library, torch):
    """Fitting a Gaussian process, optimizing acquisition functions."""
    library("botorch")
    from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.rand(12, 2, dtype=torch.float64)
    y = 1 - (x - 0.5).norm(dim=-1, keepdim=True)
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert (model.posterior(x).mean - y).abs().max() < 0.1
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    for kind, count in ((LogExpectedImprovement, 1), (qExpectedImprovement, 2)):
        wanted = kind(model, best_f=y.max())
        found, value = optimize_acqf(wanted, bounds=bounds, q=count, num_restarts=2, raw_samples=8)
        assert found.shape == (count, 2) and torch.isfinite(value)
        assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.library("captum")
def test_captum(library, torch):
    """Integrated gradients, saliency, DeepLift, kernel SHAP, occlusion, layers."""
    attr = library("captum.attr")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    change = (net(x) - net(torch.zeros(5, 3)))[:, 1]
    given = attr.IntegratedGradients(net).attribute(x, target=1, n_steps=200)
    assert torch.allclose(given.sum(1), change, atol=2e-2)
    given = attr.DeepLift(net).attribute(x, target=1)
    assert torch.allclose(given.sum(1), change, atol=1e-4)
    leaf = x.clone().requires_grad_()
    net(leaf)[:, 0].sum().backward()
    assert torch.allclose(attr.Saliency(net).attribute(leaf, target=0), leaf.grad.abs())
    assert attr.LayerConductance(net, net[1]).attribute(x, target=0).shape == (5, 4)
    assert attr.KernelShap(net).attribute(x[:1], target=0, n_samples=20).shape == (1, 3)
    hidden = attr.Occlusion(net).attribute(x, sliding_window_shapes=(1,), target=0)
    without = x.clone()
    without[:, 2] = 0
    assert torch.allclose(hidden[:, 2], (net(x) - net(without))[:, 0], atol=1e-5)


@pytest.mark.library("diffusers")
def test_diffusers(library, torch, falls, tmp_path):
    """Training of a U-Net, pipelines of DDPM and DDIM, saving and loading, `AutoencoderKL`."""
    diffusers = library("diffusers")
    net = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, norm_num_groups=4,
        block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    schedule = diffusers.DDPMScheduler(num_train_timesteps=50)
    x = torch.randn(4, 1, 8, 8)
    noise, times = torch.randn_like(x), torch.randint(0, 50, (4,))
    noisy = schedule.add_noise(x, noise, times)
    falls(net.parameters(), lambda: (net(noisy, times).sample - noise).square().mean(), lr=1e-3)
    pipeline = diffusers.DDPMPipeline(net, schedule)
    pipeline.save_pretrained(tmp_path)
    again = diffusers.DDPMPipeline.from_pretrained(tmp_path)
    state = net.state_dict()
    assert all(torch.equal(t, state[key]) for key, t in again.unet.state_dict().items())
    faster = diffusers.DDIMPipeline(net, diffusers.DDIMScheduler(50))
    for kind in (again, faster):
        kind.set_progress_bar_config(disable=True)
        assert kind(batch_size=1, num_inference_steps=3, output_type="np").images.shape == (
            1, 8, 8, 1,
        )  # fmt: skip
    coder = diffusers.AutoencoderKL(
        in_channels=1, out_channels=1, block_out_channels=(8,), norm_num_groups=4
    )
    falls(coder.parameters(), lambda: (coder(x).sample - x).square().mean(), lr=1e-3)


@pytest.mark.library("e3nn")
def test_e3nn(library, torch, falls):
    """With `optimize_einsums=False`: spherical harmonics, training of a tensor product."""
    library("e3nn").set_optimization_defaults(optimize_einsums=False)  # that edits graphs
    o3 = library("e3nn.o3")
    kinds = [o3.Irreps(k) for k in ("4x0e+4x1o", "0e+1o+2e", "8x0e+2x1o")]
    product, last = o3.FullyConnectedTensorProduct(*kinds), o3.Linear(kinds[2], "1x0e")
    x = kinds[0].randn(10, -1)
    y = o3.spherical_harmonics(kinds[1], torch.randn(10, 3), normalize=True)
    parameters = [*product.parameters(), *last.parameters()]
    falls(parameters, lambda: (last(product(x, y)) - 1).square().mean())
    turn = o3.rand_matrix()
    turns = [kind.D_from_matrix(turn) for kind in kinds]
    turned = product(x @ turns[0].T, y @ turns[1].T)
    assert torch.allclose(turned, product(x, y) @ turns[2].T, atol=1e-4)
