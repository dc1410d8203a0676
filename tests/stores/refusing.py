"""Errors of stores that refuse: one line of advice."""

import pytest

__all__ = ["SECRET", "refused"]

SECRET = "s3cr3t-w0rd"
"""A password of tests."""


def refused(kind, match, call, *arguments, **options):
    """Call; the error is of this very class, in one line that matches, and shows no password."""
    with pytest.raises(kind, match=match) as caught:
        call(*arguments, **options)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value!r}"
