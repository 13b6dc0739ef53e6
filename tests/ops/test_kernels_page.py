"""docs/kernels.md says who computes each op; no op is without a kernel and without a reason."""

import harness
import kernels_page
import pytest

from wend._engine.core.primitive import REGISTRY


def test_each_op_has_a_kernel_or_a_named_reason():
    assert kernels_page.faults(kernels_page.survey(), harness.OPS) == []


def test_the_page_is_that_of_the_registry():
    page = kernels_page.PAGE.read_text(encoding="utf-8")
    assert page == kernels_page.page(), "python tests/ops/kernels_page.py"


def test_the_page_names_each_op():
    page = kernels_page.PAGE.read_text(encoding="utf-8")
    assert [op.name for op in harness.OPS if f"`{op.name}`" not in page] == []


@pytest.mark.parametrize("name", ["sort", "frexp", "fft_c2c", "scatter_reduce"])
def test_an_op_without_a_reason_is_seen(name, monkeypatch):
    op = REGISTRY[name]
    monkeypatch.setattr(op, "schedule", op.schedule.but(library="", unlowered=""))
    (fault,) = kernels_page.faults({name: kernels_page.steps_of(op)}, [op])
    assert fault == f"{name}: a form has neither a kernel nor a named reason"


@pytest.mark.parametrize("name", ["add", "cumsum"])
def test_a_reason_of_an_op_with_kernels_is_seen(name, monkeypatch):
    op = REGISTRY[name]
    monkeypatch.setattr(op, "schedule", op.schedule.but(library="LAPACK"))
    found = kernels_page.steps_of(op)
    found = found._replace(reasons=frozenset())
    (fault,) = kernels_page.faults({name: found}, [op])
    assert fault == f"{name}: a kernel computes each sample, and the class states a reason"
