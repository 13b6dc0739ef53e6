"""wend.utils.data.ragged: samples of unlike sizes in one nested tensor."""

import numpy as np
import pytest

import wend
from wend._engine.base.errors import ShapeError
from wend.utils.data import DataLoader, UnlikeSamples, default_collate, ragged


class Words(wend.utils.data.Dataset):
    """Sentence i has i + 1 words, and a label."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"words": wend.arange(i + 1), "label": i % 2, "vector": np.full(3, float(i))}


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_unlike_samples(workers):
    loader = DataLoader(Words(), batch_size=3, collate_fn=ragged, num_workers=workers)
    first, second = loader
    assert first["words"].is_nested and first["words"].tolist() == [[0], [0, 1], [0, 1, 2]]
    assert second["words"].offsets().tolist() == [0, 4, 9, 15]
    assert first["label"].tolist() == [0, 1, 0]
    assert first["vector"].shape == (3, 3) and not first["vector"].is_nested


def test_arrays_and_structures():
    found = ragged([(np.ones((2, 3)), "a"), (np.ones((4, 3)), "b")])
    assert found[0].is_nested and found[1] == ("a", "b")
    assert found[0].to_padded_tensor(0.0).shape == (2, 4, 3)


def test_gradients_flow_to_samples():
    x = wend.ones(2, requires_grad=True)
    ragged([x, wend.ones(3)]).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_unlike_ranks():
    with pytest.raises(ShapeError, match=r"ragged: samples of \[1, 2\] dims"):
        ragged([wend.ones(2), wend.ones(2, 2)])


def test_the_other_collation_names_the_remedy():
    with pytest.raises(UnlikeSamples, match=r"wend\.utils\.data\.ragged"):
        default_collate([wend.ones(2), wend.ones(3)])
