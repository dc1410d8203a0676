"""The jobs of a program that runs on uvloop: puts on its loop, coroutine handlers on another one, of uvloop as well."""

import asyncio
import sys

import uvloop

from pywheel import AsyncJobQueue, Worker

queue = AsyncJobQueue("memory:")
loops = set()


@queue.handler("order.close")
async def close_order(job):
    await asyncio.sleep(0.01)
    loops.add(type(asyncio.get_running_loop()).__module__)


async def main(count: int) -> None:
    worker = Worker(queue, loop_factory=uvloop.new_event_loop)
    worker.start()
    await asyncio.gather(*(queue.put("order.close", {"order": n}, delay=0.1) for n in range(count)))
    while (await queue.topics.counts())["order.close"].done < count:
        await asyncio.sleep(0.05)
    worker.stop()
    await asyncio.to_thread(worker.join)
    print(
        f"{count} orders closed; handlers on {', '.join(loops)}, puts on {type(asyncio.get_running_loop()).__module__}"
    )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
