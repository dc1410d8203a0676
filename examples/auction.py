"""An auction: a countdown of 30 seconds, which each bid makes 5 seconds longer.

One timer ends the auction, and a bid moves its deadline. By default a second lasts a twentieth of one.
"""

import argparse
import asyncio
import random

import pywheel


class Auction:
    """Sells to whoever has bid most when the countdown ends."""

    def __init__(self, timers, second):
        self.second = second
        self.best, self.bidder = 100, None
        self.sold = asyncio.Event()
        self.countdown = timers.call_later(30 * second, self.sold.set)

    def bid(self, bidder, price):
        """Return whether the bid counts: it is higher, and the auction is not over."""
        if price <= self.best or not self.countdown.active():
            return False
        self.countdown.reschedule(self.countdown.when() + 5 * self.second)
        self.best, self.bidder = price, bidder
        return True

    @property
    def remaining(self):
        """Seconds until the end."""
        return (self.countdown.remaining() or 0) / self.second


async def main(arguments):
    """Hold the auction."""
    dice, second = random.Random(arguments.seed), 1 / arguments.speed
    async with pywheel.AsyncTimers() as timers:
        start = timers.time()
        auction = Auction(timers, second)

        def elapsed():
            return (timers.time() - start) / second

        def announce():
            print(f"{elapsed():5.1f} s   {auction.remaining:4.1f} s left   {auction.best} from {auction.bidder}")

        timers.call_every(10 * second, announce)
        for _ in range(arguments.bids):
            await asyncio.sleep(dice.uniform(1, 12) * second)
            bidder, price = dice.choice(["Ada", "Grace", "Edsger", "Barbara"]), auction.best + dice.randint(1, 50)
            if auction.bid(bidder, price):
                print(f"{elapsed():5.1f} s   {auction.remaining:4.1f} s left   {bidder} bids {price}")
        await auction.sold.wait()
        print(f"{elapsed():5.1f} s   sold to {auction.bidder} for {auction.best}")
        assert not auction.bid("Alan", 10**6), "too late"


def parse():
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", type=float, default=20, help="times as fast as real time (default: %(default)s)")
    parser.add_argument("--bids", type=int, default=8, help="how many are made (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the bidders' dice (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse()))
