"""`torch.nn.grad`, and the choice of kernels for attention, against PyTorch's."""

import itertools

import pytest

import wend

torch = pytest.importorskip("torch")

SETTINGS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"stride": 2, "padding": 1, "dilation": 2},
    {"groups": 2},
    {"stride": 2, "padding": 2, "groups": 4},
]


def numbers(library, *shape):
    size = 1
    for n in shape:
        size *= n
    return ((library.arange(size) * 37) % 101).double().reshape(shape) / 50 - 1


@pytest.mark.parametrize("tuples", [False, True], ids=["ints", "tuples"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("nd", [1, 2, 3])
def test_as_pytorch(nd, settings, tuples):
    def gradients(library):
        import importlib

        module = importlib.import_module(f"{library.__name__}.nn.grad")
        how = {k: (v,) * nd if tuples and k != "groups" else v for k, v in settings.items()}
        groups = settings.get("groups", 1)
        x = numbers(library, 2, 4, *(9, 8, 7)[:nd])
        weight = numbers(library, 8, 4 // groups, *(3, 2, 3)[:nd])
        y = getattr(library.nn.functional, f"conv{nd}d")(x, weight, None, **how)
        g = numbers(library, *y.shape)
        by_input = getattr(module, f"conv{nd}d_input")(x.shape, weight, g, **how)
        by_weight = getattr(module, f"conv{nd}d_weight")(x, weight.shape, g, **how)
        return by_input, by_weight

    for have, want in zip(gradients(wend), gradients(torch), strict=True):
        assert tuple(have.shape) == tuple(want.shape) and not have.requires_grad
        assert wend.allclose(have, wend.tensor(want.numpy()), rtol=1e-10, atol=1e-10)


KERNELS = "MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION".split()


@pytest.mark.parametrize("chosen", [*itertools.combinations(KERNELS, 2), ("MATH",), ()], ids=str)
def test_kernels_asked_for(chosen):
    def flags(library):
        attention, cuda = library.nn.attention, library.backends.cuda
        ask = "math flash mem_efficient cudnn".split()

        def asked():
            return [getattr(cuda, f"{name}_sdp_enabled")() for name in ask]

        kernels = [getattr(attention.SDPBackend, name) for name in chosen]
        before = asked()
        with attention.sdpa_kernel(kernels if len(kernels) != 1 else kernels[0]):
            within = asked()
        return within, asked() == before, [int(k) for k in kernels]

    import torch.nn.attention

    import wend.nn.attention

    assert flags(wend) == flags(torch)


def test_errors_of_kernels():
    import torch.nn.attention

    import wend.nn.attention

    for library in (wend, torch):
        attention = library.nn.attention
        with pytest.raises(AssertionError, match="SDPBackend"), attention.sdpa_kernel("MATH"):
            pass
        with pytest.raises(ValueError, match="Unknown flash attention impl 'none'"):
            attention.activate_flash_attention_impl("none")
        assert attention.current_flash_attention_impl() is None
        assert not attention.WARN_FOR_UNFUSED_KERNELS
        members = {name: int(kernel) for name, kernel in attention.SDPBackend.__members__.items()}
        assert members == {"ERROR": -1, "MATH": 0, "OVERRIDEABLE": 4} | {
            name: i for i, name in enumerate(KERNELS)
        }
