"""Small names of `nn`, `optim`, `jit`, `autograd`, `utils` and `backends`, against PyTorch's."""

import functools
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

BOTH = pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])


# -- nn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pad", [0, 1, 3])
def test_conv_tbc(pad):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((5, 2, 3), (2, 3, 4), (4,))]
    results = []
    for t in (wend, torch):
        given = [t.tensor(a).requires_grad_() for a in arrays]
        made = t.nn.functional.conv_tbc(*given, pad=pad)
        made.sin().sum().backward()
        results.append([made.detach(), *[x.grad for x in given]])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-10)
    named = wend.conv_tbc(*[wend.tensor(a) for a in arrays], pad)
    np.testing.assert_allclose(named.numpy(), results[0][0].numpy(), atol=1e-10)


@BOTH
def test_pairs(t):
    f = t.nn.functional.assert_int_or_pair
    assert f(3, "size", "{} is wrong") is None
    assert f([1, 2], "size", "{} is wrong") is None
    with pytest.raises(AssertionError, match="size is wrong"):
        f([1, 2, 3], "size", "{} is wrong")


@BOTH
def test_names_of_other_packages(t):
    assert t.nn.functional.has_torch_function is t.overrides.has_torch_function
    assert t.nn.functional.TYPE_CHECKING is False
    assert t.nn.Module.T_destination.__name__ == "T_destination"
    assert t.fft.Tensor is t.Tensor


def test_adaptive_softmax_takes_pytorchs_keywords():
    layer = wend.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])
    x, y = wend.randn(3, 4), wend.tensor([0, 2, 5])
    a, b = layer(input_=x, target_=y), layer(x, y)
    assert a.loss.item() == b.loss.item()


# -- autograd and hooks ---------------------------------------------------------------------


@BOTH
def test_switches_clone(t):
    for switch in (
        t.autograd.enforce_grad_layout_policy(False),
        t.autograd.enforce_grad_layout_policy(),
        t.autograd.set_multithreading_enabled(True),
    ):
        assert type(switch.clone()) is type(switch)
        x = t.ones(2, 3).t().requires_grad_()
        with switch:
            (x * 2).sum().backward()
        assert x.grad.tolist() == [[2, 2]] * 3

    @t.autograd.enforce_grad_layout_policy(False)
    def doubled(x):
        return x * 2

    assert doubled(t.ones(1)).tolist() == [2]
    t.autograd.enforce_grad_layout_policy(True)  # PyTorch's switches act when they are made, too


@BOTH
@pytest.mark.parametrize(
    ("budget", "error"),
    [(0.5, RuntimeError), (True, TypeError), ("a", TypeError), (2.0, ValueError)],
)
def test_a_region_has_no_budget(t, budget, error):
    with pytest.raises(error, match="region_activation_memory_budget"):
        t.autograd.graph.region_activation_memory_budget(budget)


def test_stale_streams():
    assert wend.autograd.graph.set_override_stale_capture_stream(True) is None


@BOTH
def test_backward_hooks_of_a_call(t):
    log = []

    def before(module, grads):
        log.append(("pre", module, [g.tolist() for g in grads]))
        return tuple(g * 2 for g in grads)

    def behind(module, inputs, outputs):
        log.append(("post", [None if g is None else g.tolist() for g in inputs]))
        return tuple(None if g is None else g * 10 for g in inputs)

    hook = t.utils.hooks.BackwardHook("module", [behind], [before])
    assert hook.user_hooks == [behind]
    assert hook.user_pre_hooks == [before]
    x = t.tensor([1.0, 2.0], requires_grad=True)
    a, text = hook.setup_input_hook((x, "text"))
    assert text == "text"
    y = hook.setup_output_hook(a * 3)
    y.sum().backward()
    assert log == [("pre", "module", [[1, 1]]), ("post", [[6, 6], None])]
    assert x.grad.tolist() == [60, 60]


@BOTH
def test_handles_take_pytorchs_keyword(t):
    from collections import OrderedDict

    table = OrderedDict()
    handle = t.utils.hooks.RemovableHandle(hooks_dict=table)
    table[handle.id] = print
    handle.remove()
    assert not table


# -- optim ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad", "RMSprop"])
def test_steps_on_parameters_swapped_in(kind):
    rows = []
    for t in (wend, torch):
        more = {"momentum": 0.9} if kind == "SGD" else {}
        p, q = (t.nn.Parameter(t.tensor(a)) for a in ([1.0, 2.0], [3.0]))
        optimizer = getattr(t.optim, kind)(
            [{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, **more
        )
        p.grad, q.grad = t.tensor([1.0, -1.0]), t.tensor([2.0])
        optimizer.step()
        state = optimizer.state_dict()
        kept = {
            k: {n: v.clone() if t.is_tensor(v) else v for n, v in s.items()}
            for k, s in state["state"].items()
        }
        given = {"state": kept, "param_groups": [dict(g) for g in state["param_groups"]]}
        given["param_groups"][0]["lr"] = 0.25
        others = {"p": t.nn.Parameter(t.tensor([5.0, 6.0])), "q": t.nn.Parameter(t.tensor([7.0]))}
        for parameter in others.values():
            parameter.grad = t.ones_like(parameter)
        groups = [g["params"] for g in optimizer.param_groups]
        with t.optim.swap_in_optimizer_params_and_state(optimizer, others, given):
            assert optimizer.param_groups[0]["lr"] == 0.25
            assert optimizer.param_groups[0]["params"][0] is others["p"]
            optimizer.step()
        assert [g["params"] for g in optimizer.param_groups] == groups
        assert optimizer.param_groups[0]["lr"] == 0.1
        values = [x.detach().tolist() for x in (p, q, *others.values())]
        values += [
            v.tolist() if t.is_tensor(v) else v for s in kept.values() for _, v in sorted(s.items())
        ]
        optimizer.step()
        rows.append([*values, p.tolist(), q.tolist()])
    ours, theirs = rows
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        if mine is not None:
            np.testing.assert_allclose(mine, expected, rtol=1e-5)


def test_states_that_do_not_fit_are_refused():
    t = wend  # PyTorch takes more parameters than there are
    p = t.nn.Parameter(t.ones(1))
    optimizer = t.optim.SGD([p], lr=0.1, momentum=0.5)
    p.grad = t.ones(1)
    optimizer.step()
    state = optimizer.state_dict()
    swap = t.optim.swap_in_optimizer_params_and_state
    for parameters, given in (
        ({}, state),
        ({"a": p, "b": p}, state),
        ({"a": p}, {**state, "param_groups": []}),
    ):
        with pytest.raises(ValueError, match="swap_in"), swap(optimizer, parameters, given):
            pass
    assert optimizer.param_groups[0]["params"] == [p]


@BOTH
def test_hooks_around_a_step_of_ones_own(t):
    log = []

    class Own(t.optim.SGD):
        @t.optim.Optimizer.profile_hook_step
        def advance(self):
            log.append("step")

    optimizer = Own([t.nn.Parameter(t.ones(1))], lr=0.1)
    optimizer.register_step_pre_hook(lambda *given: log.append("before"))
    optimizer.register_step_post_hook(lambda *given: log.append("after"))
    optimizer.advance()
    assert log == ["before", "step", "after"]


@BOTH
def test_schedules_take_back_their_first_step(t):
    optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=0.1)
    parts = [
        t.optim.lr_scheduler.ConstantLR(optimizer),
        t.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    ]
    joined = t.optim.lr_scheduler.SequentialLR(optimizer, parts, [2])
    before = [part.last_epoch for part in parts]
    joined.recursive_undo()
    assert [part.last_epoch for part in parts] == [n - 1 for n in before]
    joined.recursive_undo(parts[0])
    assert parts[0].last_epoch == before[0] - 2


# -- jit ------------------------------------------------------------------------------------


class WithAttribute(wend.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = wend.jit.Attribute(2.0, float)

    def forward(self, x):
        return x * (self.scale.value if isinstance(self.scale, wend.jit.Attribute) else self.scale)


def test_attributes_of_scripts():
    for t in (wend, torch):
        found = t.jit.Attribute(0.5, float)
        assert (found.value, found.type) == (0.5, float)
    plain = WithAttribute()
    assert plain.scale.value == 2
    scripted = wend.jit.script(plain)
    assert scripted.scale == 2
    assert scripted(wend.ones(1)).tolist() == [2]
    scripted.more = wend.jit.Attribute([1], list)
    assert scripted.more == [1]


def test_scripts_take_methods_and_go_to_buffers():
    scripted = wend.jit.script(wend.nn.Linear(2, 2))
    x = wend.ones(1, 2)
    before = scripted(x)
    scripted.define("""
        def doubled(self, x):
            return torch.add(self(x), self(x))
    """)
    assert scripted.doubled(x).tolist() == (before * 2).tolist()
    content = scripted.save_to_buffer()
    assert isinstance(content, bytes)
    again = wend.jit.load(io.BytesIO(content))
    assert again(x).tolist() == before.tolist()
    scripted.define("def forward(self, x): return x + 1")
    assert scripted(x).tolist() == [[2, 2]]
    with pytest.raises(ValueError, match="single `def`"):
        scripted.define("x = 1")
    parts = wend.jit.script(wend.nn.ModuleList([wend.nn.ReLU()]))
    assert parts.forward_magic_method("__len__") == 1
    with pytest.raises((NotImplementedError, AttributeError)):
        scripted.forward_magic_method("__len__")


# -- utils, random and backends -------------------------------------------------------------


@BOTH
def test_former_spellings_warn(t):
    data = t.utils.data.ConcatDataset([[1, 2], [3]])
    with pytest.warns(DeprecationWarning if t is wend else FutureWarning, match="cumulative_sizes"):
        assert data.cummulative_sizes == [2, 3]


@BOTH
def test_small_facts(t):
    assert t.random.thread_safe_generator() is None
    names = {"MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD", "MUST_SAVE", "PREFER_RECOMPUTE"}
    assert names <= {p.name for p in t.utils.checkpoint.CheckpointPolicy}
    tree = t.utils._pytree.tree_structure({"a": 1, "b": [2]})
    assert (tree.type, tree.context, len(tree.children_specs)) == (dict, ["a", "b"], 2)
    assert t.utils._pytree.tree_unflatten([1, 2], tree) == {"a": 1, "b": [2]}


@pytest.mark.parametrize("policy", ["MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD"])
def test_offloaded_results_are_saved(policy):
    chosen = getattr(wend.utils.checkpoint.CheckpointPolicy, policy)
    contexts = functools.partial(
        wend.utils.checkpoint.create_selective_checkpoint_contexts, lambda *a, **k: chosen
    )
    x = wend.ones(2, requires_grad=True)
    made = wend.utils.checkpoint.checkpoint(
        lambda x: (x * 3).sin().sum(), x, use_reentrant=False, context_fn=contexts
    )
    made.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos([3, 3]), rtol=1e-6)


def test_devices_that_are_not_there_are_refused():
    cuda, backend = wend.cuda, wend.backends.cuda
    for call in (
        lambda: cuda.Event(),
        lambda: cuda.Stream(),
        lambda: cuda.ExternalStream(0),
        lambda: cuda.CUDAGraph(),
        lambda: cuda.graph(None),
        lambda: cuda.current_stream(),
        lambda: cuda.set_device(0),
        lambda: cuda.get_rng_state(),
        lambda: cuda.memory_summary(),
        lambda: cuda.mem_get_info(),
        lambda: backend.cufft_plan_cache[0],
        lambda: backend.cufft_plan_cache.size,
        lambda: backend.cufft_plan_cache.max_size,
        lambda: setattr(backend.cufft_plan_cache, "max_size", 3),
        lambda: setattr(backend.cufft_plan_cache, "size", 3),
        lambda: backend.cufft_plan_cache.clear(),
        backend.blas_workspace_size,
        backend.cublas_workspace_size,
        backend.cublaslt_workspace_size,
    ):
        with pytest.raises(RuntimeError, match=r"CUDA|size|device"):
            call()


def test_settings_of_the_absent_backend_are_kept():
    backend = wend.backends.cuda
    assert backend.matmul.allow_tf32 is torch.backends.cuda.matmul.allow_tf32
    backend.matmul.allow_tf32 = True
    assert backend.matmul.allow_tf32 is True
    backend.matmul.allow_tf32 = False
    assert isinstance(backend.matmul, backend.cuBLASModule)
    x = wend.ones(1, 1, 2, 2)
    call = backend.SDPAParams(x, x, x, None, 0.0, True, False)
    assert call.query is x
    assert call.is_causal
    assert backend.can_use_flash_attention(call) is False
    assert backend.preferred_rocm_fa_library() == "default"
