"""Sessions of a web shop: a request keeps its session alive, an idle one is logged out, and their number is bounded.

python examples/session_cache.py
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass, field

from pywheel import TTLDict

IDLE = 1.0  # seconds until a session ends; half an hour in a shop
ROOM = 1_000


@dataclass
class Session:
    user: str
    basket: list[str] = field(default_factory=list)


class Shop:
    """Knows who is logged in."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.sessions: TTLDict[str, Session] = TTLDict(IDLE, maxsize=ROOM, on_expire=self._end)

    def log_in(self, user: str) -> str:
        token = secrets.token_urlsafe(16)
        self.sessions[token] = Session(user)
        return token

    def buy(self, token: str, thing: str) -> bool:
        """Put a thing into the basket; False if the session is over."""
        session = self.sessions.get(token)
        if session is None or not self.sessions.touch(token):
            return False
        session.basket.append(thing)
        return True

    def log_out(self, token: str) -> None:
        self.sessions.pop(token, None)

    def _end(self, token: str, session: Session) -> None:
        self.ended.append(session.user)


def main() -> None:
    shop = Shop()
    busy, idle, gone = shop.log_in("busy"), shop.log_in("idle"), shop.log_in("gone")
    shop.log_out(gone)
    for thing in ("tea", "milk", "sugar", "cups"):
        time.sleep(IDLE / 3)
        shop.buy(busy, thing)
    print(f"after {4 * IDLE / 3:.1f} s, with {IDLE} s for the idle:")
    print(f"  busy has bought {shop.sessions[busy].basket}, and {shop.sessions.ttl(busy):.2f} s left")
    print(f"  idle may {'still' if shop.buy(idle, 'honey') else 'no longer'} buy; the shop ended {shop.ended}")

    tokens = [shop.log_in(f"visitor {number}") for number in range(3 * ROOM)]
    print(f"{3 * ROOM} log in, and there is room for {ROOM}: {len(shop.sessions)} are in")
    shop.ended.clear()

    requests = 100_000
    start = time.perf_counter()
    answered = sum(shop.buy(token, "tea") for token in random.choices(tokens[-ROOM:], k=requests))
    took = time.perf_counter() - start
    print(f"{answered} requests, each of which kept a session alive: {took / requests * 1e6:.1f} us for one")

    time.sleep(IDLE)
    print(f"everybody leaves: {shop.sessions.expire()} sessions ended, {len(shop.sessions)} are left")


if __name__ == "__main__":
    main()
