"""Settings of the whole suite."""

import sys


def pytest_ignore_collect(collection_path, config):
    """`-m smoke` does not import test files that have no smoke test (some load PyTorch)."""
    if config.option.markexpr == "smoke" and collection_path.suffix == ".py":
        return "mark.smoke" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems():
    """Hypothesis sets no deadline: on a busy machine the first example may take long."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None:
        hypothesis.settings.register_profile("wend", deadline=None, print_blob=True)
        hypothesis.settings.load_profile("wend")
