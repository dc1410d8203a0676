"""The names of errors in text for people."""

import pickle

import pytest

import pywheel
from pywheel import _errors

NAMES = [name for name, value in vars(_errors).items() if isinstance(value, type) and not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_called_as_it_is_imported(name):
    kind = getattr(_errors, name)
    assert f"{kind.__module__}.{kind.__qualname__}" == f"pywheel.{name}"
    assert getattr(pywheel, name) is kind
    error = kind("why", 7) if name == "JobExists" else kind("why")
    assert str(pickle.loads(pickle.dumps(error))) == "why"
