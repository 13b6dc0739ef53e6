"""The pictures of the pages are those that the product makes today."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.usefixtures("own_trie")


def test_pictures_are_those_of_the_product():
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    found = made.pictures()
    pages = (DOCS / "howto" / "seeing.md").read_text(encoding="utf-8")
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name, text in found.items():
        assert f"(pictures/{name})" in pages and f"(howto/pictures/{name})" in gallery
        assert (made.FOLDER / name).read_text(encoding="utf-8") == text, "docs/make_pictures.py"
    assert {path.name for path in made.FOLDER.iterdir()} == set(found)
