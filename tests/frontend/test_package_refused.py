"""`torch.package` can be imported; its uses are refused at once, with a way that works."""

import importlib

import pytest

import wend

CLASSES = "PackageImporter PackageExporter Importer OrderedImporter GlobGroup Directory".split()


@pytest.mark.parametrize("name", CLASSES)
def test_uses_name_the_remedy(name):
    package = importlib.import_module("wend.package")
    with pytest.raises(NotImplementedError, match=rf"torch\.package\.{name}: .*torch\.save"):
        getattr(package, name)("model.pt")
    assert not isinstance(wend.ones(1), getattr(package, name))


def test_errors_and_questions():
    from wend import package

    assert not package.is_from_package(wend.nn.Linear)
    assert issubclass(package.PackagingError, Exception)
    with pytest.raises(NotImplementedError, match=r"torch\.export\.save"):
        package.sys_importer.import_module("os")
    with pytest.raises(AttributeError):
        _ = package.no_such_name


def test_names_are_pytorchs():
    torch_package = pytest.importorskip("torch.package")
    from wend import package

    assert all(hasattr(torch_package, name) for name in package.__all__)
