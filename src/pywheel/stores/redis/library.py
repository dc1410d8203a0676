"""What the server runs for the store: one library of functions, put together from the files of ``lua/``.

A function is made once, where a script would be made anew for every call.
"""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files
from typing import Final

__all__ = ["LIBRARY", "name_of"]

_FOLDER: Final = files(__package__) / "lua"
_FUNCTIONS: Final = {
    "'no-writes'": "job page topics forecast ended notes states histories counts lapsed claims next_dues quiet verify "
    "first_due dues",
    # Where no memory is left, what was claimed can be settled, and what has finished be purged.
    "'allow-oom'": "beat hear leave roster lease group settle mend",
    "": "apply put open nonce",
}
"""By the flags that the server is to know of them."""
_LIBRARY: Final = """#!lua name=pywheel_{version}
local run
-- The server has neither `string` nor `pairs` while it loads a library: all of it is made by the first call.
local function make()
{parts}
return run
end
"""
_FUNCTION: Final = """redis.register_function{{
    function_name = '{name}', flags = {{{flags}}},
    callback = function(keys, args)
        run = run or make()
        return run('{function}', keys, args)
    end
}}
"""


def _read(parts: str) -> str:
    return "\n".join((_FOLDER / f"{part}.lua").read_text() for part in parts.split())


_PARTS: Final = "\n".join(
    (
        _read("base jobs places notes hints settle put steps"),
        # Each in a block of its own: Lua has 200 local names at once.
        *(f"do\n{_read(part)}\nend" for part in ("claim", "manage", "read", "workers", "verify")),
    )
)
_VERSION: Final = sha1(_PARTS.encode(), usedforsecurity=False).hexdigest()[:12]


def name_of(function: str) -> bytes:
    """Return what the server calls a function."""
    return f"pywheel_{function}_{_VERSION}".encode()


LIBRARY: Final = "".join(
    (
        _LIBRARY.format(version=_VERSION, parts=_PARTS),
        *(
            _FUNCTION.format(name=name_of(function).decode(), flags=flags, function=function)
            for flags, functions in _FUNCTIONS.items()
            for function in functions.split()
        ),
    )
).encode()
"""The text. Its functions have its hash in their names, so those of several versions of pywheel lie side by side."""
