"""Settings of the whole suite."""


def pytest_ignore_collect(collection_path, config):
    """`-m smoke` does not even import the test files that have no smoke test (some load PyTorch)."""
    if config.option.markexpr == "smoke" and collection_path.suffix == ".py":
        return "mark.smoke" not in collection_path.read_text(encoding="utf-8") or None
    return None
