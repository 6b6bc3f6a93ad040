"""The compile suite: kernels become sm_90 cubins without a GPU, in a cache of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def triton_cache(tmp_path_factory):
    """A fresh disk cache per session: nothing stale is tested, equal kernels compile once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield
