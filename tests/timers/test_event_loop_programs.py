"""EventLoop under whole programs: everything else of asyncio works on it as on the loop it replaces."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.isolated.child import environment, run_well
from tests.jobs.waiting import LIMIT

ON_UNIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals on Windows")
CAN_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture
def run(pywheel):
    """Run a coroutine in a new loop of ours."""

    def run(coroutine):
        with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
            return runner.run(asyncio.wait_for(coroutine, LIMIT))

    return run


def child(pywheel, code, *arguments, **options):
    """Run a program on this implementation in a process of its own; it must succeed. Return what it printed."""
    pure = "1" if pywheel.implementation == "pure" else None
    return run_well("-c", code, *arguments, PYWHEEL_PURE=pure, PYWHEEL_REQUIRE_NATIVE=None, **options)


# ---- running ---------------------------------------------------------------------------------------------------------


def test_it_is_a_loop_factory(pywheel):
    async def main():
        await asyncio.sleep(0.001)
        return type(asyncio.get_running_loop())

    if sys.version_info >= (3, 12):
        assert asyncio.run(main(), loop_factory=pywheel.EventLoop) is pywheel.EventLoop
    with asyncio.Runner(loop_factory=pywheel.EventLoop, debug=True) as runner:
        assert runner.run(main()) is pywheel.EventLoop


def test_it_is_the_default_loop_of_the_platform_with_other_timers(pywheel):
    loop, default = pywheel.EventLoop(), asyncio.new_event_loop()
    assert isinstance(loop, type(default))
    assert repr(loop) == "<EventLoop running=False closed=False debug=False>"
    loop.close(), default.close()


def test_timeouts_and_waits_that_end_and_that_do_not(run):
    async def main():
        async with asyncio.timeout(LIMIT):
            assert await asyncio.sleep(0.001, "slept") == "slept"
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(-1):
                await asyncio.sleep(LIMIT)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        assert await asyncio.wait_for(asyncio.sleep(0, 1), LIMIT) == 1
        assert await asyncio.wait_for(asyncio.sleep(0, 2), None) == 2
        done, pending = await asyncio.wait(
            [asyncio.create_task(asyncio.sleep(0.001)), asyncio.create_task(asyncio.sleep(LIMIT))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert (len(done), len(pending)) == (1, 1)
        async with asyncio.timeout(0.001) as timeout:
            timeout.reschedule(None)
            await asyncio.sleep(0.002)
        assert asyncio.get_running_loop()._scheduled  # the guard, and the task that goes on sleeping
        pending.pop().cancel()

    run(main())


def test_ten_thousand_tasks_sleep_and_wake(run):
    async def main():
        woken = await asyncio.gather(*(asyncio.sleep(number % 50 / 10_000, number) for number in range(10_000)))
        assert woken == list(range(10_000))

    run(main())


def test_async_generators_are_closed_with_the_loop(run):
    async def main():
        async def generator():
            try:
                while True:
                    await asyncio.sleep(0)
                    yield 1
            finally:
                await asyncio.sleep(0.001)
                closed.append(1)

        async for _ in generator():
            break
        while not closed:
            await asyncio.sleep(0)
        kept.append(generator())
        await anext(kept[0])

    closed, kept = [], []
    run(main())
    assert closed == [1, 1]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_many_threads_call_soon_threadsafe_and_each_call_comes_once(run):
    async def main():
        loop, calls = asyncio.get_running_loop(), []
        with ThreadPoolExecutor(8) as pool:
            for thread in range(8):
                pool.submit(
                    lambda thread=thread: [loop.call_soon_threadsafe(calls.append, (thread, n)) for n in range(500)]
                )
            while len(calls) < 4_000:
                await asyncio.sleep(0.001)
        assert len(set(calls)) == 4_000
        for thread in range(8):
            assert [number for each, number in calls if each == thread] == list(range(500))

    run(main())


def test_executors_and_coroutines_from_other_threads(run):
    async def main():
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
        coroutine = asyncio.sleep(0.001, "from outside")
        wait = lambda: asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT)  # noqa: E731
        assert await asyncio.to_thread(wait) == "from outside"

    run(main())


def test_timers_misused_from_other_threads_do_no_harm(pywheel):
    """Not allowed, and not promised to come in time; but nothing may break."""

    def misuse():
        for _ in range(100):
            handles = [loop.call_later(number % 5 * 0.000_1, lambda *_: None, number) for number in range(50)]
            for handle in handles[::2]:
                handle.cancel()

    async def main():
        threads = [threading.Thread(target=misuse) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or loop._scheduled:
            await asyncio.sleep(0)
            for handle in loop._scheduled[:20]:
                handle.cancel()

    loop = pywheel.EventLoop()
    loop.run_until_complete(asyncio.wait_for(main(), None))
    assert loop._scheduled == []
    loop.close()


# ---- files and processes -----------------------------------------------------------------------------------------


def test_streams_datagrams_and_servers(run):
    async def main():
        async def serve(reader, writer):
            async with asyncio.timeout(LIMIT):
                writer.write((await reader.readline()).upper())
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            assert await reader.readline() == b"HELLO\n"
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

        class Echo(asyncio.DatagramProtocol):
            def connection_made(self, transport):
                self.transport = transport

            def datagram_received(self, data, address):
                self.transport.sendto(data[::-1], address)

        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            await loop.sock_connect(client, transport.get_extra_info("sockname"))
            await loop.sock_sendall(client, b"abc")
            assert await asyncio.wait_for(loop.sock_recv(client, 10), LIMIT) == b"cba"
        transport.close()

    run(main())


@pytest.mark.stress
def test_subprocesses_with_a_timeout_that_fires_and_one_that_does_not(run):
    async def main():
        echo = "import sys; print(sys.stdin.readline().strip()[::-1])"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", echo, **pipes)
        async with asyncio.timeout(LIMIT):
            output, _ = await process.communicate(b"abc\n")
        assert output.strip() == b"cba"
        assert process.returncode == 0
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 0.01)
        process.kill()
        assert await process.wait() != 0

    run(main())


# ---- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.stress
@ON_UNIX
def test_a_signal_handler_runs_though_the_loop_sleeps(run):
    async def main():
        loop, got = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await got.wait()
        assert loop.remove_signal_handler(signal.SIGUSR1)

    run(main())


INTERRUPTED = """
import asyncio, sys
import pywheel

async def main():
    try:
        print("ready", flush=True)
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        print("cancelled")
        raise

async def busy():
    print("ready", flush=True)
    while True:
        await asyncio.sleep(0)

with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
    try:
        runner.run(main() if sys.argv[1] == "sleeping" else busy())
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.stress
@ON_UNIX
@pytest.mark.parametrize("what", ["sleeping", "busy"])
def test_ctrl_c_ends_a_program_as_it_does_on_asyncios_loop(pywheel, what):
    pure = "1" if pywheel.implementation == "pure" else None
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, what],
        env=environment(PYWHEEL_PURE=pure, PYWHEEL_REQUIRE_NATIVE=None),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    assert output.split() == ["cancelled", "interrupted"][what == "busy" :]
    assert process.returncode == 0


# ---- ends ------------------------------------------------------------------------------------------------------------

FORKED = """
import asyncio, os
import pywheel

loop = pywheel.EventLoop()
calls = []

def fork():
    loop.call_later(0.001, calls.append, "later")
    pid = os.fork()
    if pid == 0:
        os._exit(child())
    calls.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    loop.call_later(0.01, loop.stop)

def child():
    with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
        return runner.run(asyncio.wait_for(asyncio.sleep(0.001, 7), 20))

loop.call_soon(fork)
loop.run_forever()
loop.close()
print(*calls)
"""


@pytest.mark.stress
@CAN_FORK
def test_a_child_forked_from_a_callback_can_run_a_loop_of_its_own(pywheel):
    assert child(pywheel, FORKED).split() == ["7", "later"]


@pytest.mark.stress
@pytest.mark.parametrize(
    "code",
    [
        "loop = pywheel.EventLoop(); loop.call_later(600, print, loop); loop.close()",
        "loop = pywheel.EventLoop(); [loop.call_later(600, print, n) for n in range(1_000)]; loop.close(); del loop",
        "loop = pywheel.EventLoop(); handle = loop.call_later(600, print); loop.close(); handle.cancel(); del loop",
        "asyncio.Runner(loop_factory=pywheel.EventLoop).__enter__().close()",
    ],
    ids=["closed", "many", "handle outlives", "runner"],
)
def test_an_interpreter_ends_quietly_with_timers_left(pywheel, code):
    assert child(pywheel, f"import asyncio, pywheel; {code}") == ""


@pytest.mark.stress
def test_an_interpreter_ends_though_its_loop_was_not_closed(pywheel):
    code = "import asyncio, pywheel; loop = pywheel.EventLoop(); loop.call_later(600, print, loop)"
    assert child(pywheel, code, PYTHONWARNINGS="ignore::ResourceWarning") == ""


def test_a_loop_that_is_dropped_warns_and_is_closed(pywheel):
    loop = pywheel.EventLoop()
    loop.call_later(600, print, loop)
    gone = weakref.ref(loop)
    del loop
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    assert gone() is None
    gc.collect()


@pytest.mark.stress
def test_importing_pywheel_does_not_import_asyncio(pywheel):
    code = "import sys, pywheel; print('asyncio' in sys.modules); pywheel.EventLoop; print('asyncio' in sys.modules)"
    assert child(pywheel, code).split() == ["False", "True"]
