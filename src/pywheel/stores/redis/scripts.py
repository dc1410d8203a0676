"""The scripts, each of one step: put together from the files of ``lua/``."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files
from typing import Final

__all__ = ["Script"]


class Script:
    """A script, as the server knows it."""

    __slots__ = ("leases", "sha", "text")

    def __init__(self, *parts: str, flags: str = "", leases: bool = False) -> None:
        self.leases = leases
        """Whether its answer says when the first lease is over, second."""
        texts = [
            f"#!lua flags={flags}" if flags else "#!lua",
            *((_FOLDER / f"{part}.lua").read_text() for part in parts),
        ]
        self.text: Final = "\n".join(texts).encode()
        self.sha: Final = sha1(self.text, usedforsecurity=False).hexdigest().encode()


_FOLDER: Final = files(__package__) / "lua"
_WRITES = (
    *"base rank lanes once hints put states kept transitions gate settle claim find nonces notes manage keyed".split(),
    *"imports members announce apply".split(),
)
PUT: Final = Script("put_one", "base", "once", "hints", "put", "put_only")
APPLY: Final = Script(*_WRITES)
SETTLE: Final = Script(*_WRITES, flags="allow-oom")
"""The same, also where there is no memory left: what was claimed can be settled, and what has finished be purged."""
OPEN: Final = Script("base", "put", "open")
NONCE: Final = Script("base", "nonces", "nonce")

BEAT: Final = Script("base", "members", "beat", flags="allow-oom", leases=True)
HEAR: Final = Script("base", "members", "hear", flags="allow-oom")
LISTEN: Final = Script("base", "rank", "lanes", "listen", flags="allow-oom", leases=True)
LEAVE: Final = Script("base", "members", "leave", flags="allow-oom")
ROSTER: Final = Script("base", "roster", flags="no-writes", leases=True)
QUIET: Final = Script("base", "quiet", flags="no-writes")
LEASE: Final = Script("base", "lease", flags="no-writes", leases=True)

GET: Final = Script("base", "states", "look", "find", "get", flags="no-writes")
LIST: Final = Script("base", "states", "look", "sets", "list", flags="no-writes")
PAGE: Final = Script("base", "states", "look", "rank", "ranks", "sets", "page", flags="no-writes")
TOPICS: Final = Script("base", "topics", flags="no-writes")
FORECAST: Final = Script("base", "forecast", flags="no-writes")
RECENT: Final = Script("base", "states", "ranks", "recent", flags="no-writes")
NOTE: Final = Script("base", "note", flags="no-writes")
SEEN: Final = Script("base", "states", "look", "seen", flags="no-writes")
HISTORY: Final = Script("base", "states", "history", flags="no-writes")
COUNTS: Final = Script("base", "states", "look", "counts", flags="no-writes")
COUNTED: Final = Script("base", "states", "look", "counted", flags="no-writes")
WINDOWS: Final = Script("base", "rank", "lanes", "windows", flags="no-writes")
FIRST_DUES: Final = Script("base", "states", "first_dues", flags="no-writes")

_CHECKS: Final = "base lanes hints states kept transitions gate verify".split()
VERIFY: Final = Script(*_CHECKS, flags="no-writes")
MEND: Final = Script(*_CHECKS, flags="allow-oom")
