"""The jobs of a program that runs on uvloop: puts and coroutine handlers share its loop."""

import asyncio
import sys

import uvloop

from pywheel import AsyncJobQueue, AsyncWorker

queue = AsyncJobQueue("memory:")
loops = set()


@queue.handler("order.close")
async def close_order(job):
    await asyncio.sleep(0.01)
    loops.add(asyncio.get_running_loop())


async def main(count: int) -> None:
    async with AsyncWorker(queue):
        await asyncio.gather(*(queue.put("order.close", {"order": n}, delay=0.1) for n in range(count)))
        while (await queue.topics.counts())["order.close"].done < count:
            await asyncio.sleep(0.05)
    loops.add(asyncio.get_running_loop())
    print(f"{count} orders closed; handlers and puts on {', '.join(type(loop).__module__ for loop in loops)}")


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
