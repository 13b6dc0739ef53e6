"""Small programs run by groups here, as large ones do elsewhere."""

import pytest


@pytest.fixture(autouse=True)
def _groups_alone(groups_alone):
    """See `groups_alone`."""
