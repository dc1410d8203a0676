"""The address of an empty store, of each kind in turn."""

import pytest

__all__ = ["url"]


@pytest.fixture(params=["memory", "sqlite", "postgres", "mariadb", "redis"])
def url(request, tmp_path):
    if request.param in ("memory", "sqlite"):
        return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue(f"{request.param}_server").url()
