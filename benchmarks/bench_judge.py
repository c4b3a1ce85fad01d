"""How much time, processor time and memory a judged run takes besides the judge itself.

    python benchmarks/bench_judge.py

The judge is a server of this machine, in a process of its own, that answers every request after a
fixed time. What is printed, and what it should be:

- ``wall``: of N calls over C connections with latency L, as a share of N L / C; at most 1.15.
- ``cpu``: processor time of this process per verdict, in milliseconds; below 1.
- ``memory``: growth of the resident set from the first tenth of the rows to their end, in MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import re
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from opencompass_ext.judging import Decompose, EndpointJudge, Match, Source
from opencompass_ext.judging.session import JudgeSession

_UNIT = re.compile(rb'<unit-[0-9a-f]{8} id=\\"(\d+)\\">')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
# Rows that an evaluator hands over together.
ROWS_AT_ONCE = 200
CLAIMS = 10


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of a call")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--calls", type=int, default=480, help="calls of the timed run")
    parser.add_argument("--units-per-call", type=int, default=1, help="in the timed run")
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the run for memory")
    arguments = parser.parse_args()
    if arguments.calls * arguments.units_per_call < CLAIMS or arguments.latency <= 0:
        parser.error(f"--calls times --units-per-call must be at least {CLAIMS}, --latency above 0")
    with tempfile.TemporaryDirectory() as folder:
        _time_calls(arguments, Path(folder))
        _watch_memory(arguments, Path(folder))


def _time_calls(arguments: argparse.Namespace, folder: Path) -> None:
    per_call = arguments.units_per_call
    rows = arguments.calls * per_call // CLAIMS
    calls = rows * CLAIMS // per_call
    with _Stub(arguments.latency) as url, _session(arguments, folder / "t", url, per_call) as judge:
        # The first call finds out what the endpoint can do, alone.
        judge.match([_row(-1)])
        wall, cpu = time.perf_counter(), time.process_time()
        answers = judge.match([_row(i) for i in range(rows)])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert all(verdict.is_yes for verdicts in answers for verdict in verdicts)
    ideal = calls * arguments.latency / arguments.connections
    print(
        f"wall: {calls} calls of {arguments.latency:g} s over {arguments.connections} connections "
        f"took {wall:.2f} s, {wall / ideal:.3f} of N L / C"
    )
    verdicts = rows * CLAIMS
    print(f"cpu: {1000 * cpu / verdicts:.3f} ms a verdict, {per_call} a call")


def _watch_memory(arguments: argparse.Namespace, folder: Path) -> None:
    with _Stub(0.0) as url, _session(arguments, folder / "m", url, CLAIMS) as judge:
        begun = None
        for first in range(0, arguments.rows, ROWS_AT_ONCE):
            rows = range(first, min(first + ROWS_AT_ONCE, arguments.rows))
            judge.decompose([Decompose("subquestions", f"What is number {i}?") for i in rows])
            judge.match([_row(i) for i in rows])
            if begun is None and first >= arguments.rows // 10:
                begun = _resident_mb()
        grown = _resident_mb() - (begun or 0.0)
    size = (folder / "m").stat().st_size / 1e6
    print(
        f"memory: {grown:+.1f} MB from row {arguments.rows // 10} to {arguments.rows}, beside a "
        f"transcript of {size:.0f} MB; most ever "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


def _session(
    arguments: argparse.Namespace, transcript: Path, url: str, units_per_call: int
) -> JudgeSession:
    judge = EndpointJudge(model="stub", url=url, concurrency=arguments.connections)
    return JudgeSession(judge, transcript, units_per_call=units_per_call)


def _row(number: int) -> Match:
    source = Source("s", f"Source {number}. " + "Water flows down the valley. " * 40)
    claims = tuple(f"Claim {k} of row {number}." for k in range(CLAIMS))
    return Match("supported", claims, query=f"What is number {number}?", sources=(source,))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class _Stub:
    """The server, while the block lasts."""

    def __init__(self, latency: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(latency, there), daemon=True)

    def __enter__(self) -> str:
        self._process.start()
        return f"http://127.0.0.1:{self._here.recv()}/v1"

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()


def _serve(latency: float, here: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(_talk(latency), "127.0.0.1", 0, backlog=256)
        here.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def _talk(
    latency: float,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            await asyncio.sleep(latency)
            content = _completion(body)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
            await writer.drain()

    return talk


def _completion(body: bytes) -> bytes:
    reply = json.dumps({"verdicts": list(_verdicts(body))} if b"<unit-" in body else _QUESTIONS)
    message = {"role": "assistant", "content": reply}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 400, "completion_tokens": 20}
    return json.dumps({"model": "stub", "choices": [choice], "usage": usage}).encode()


_QUESTIONS = {"questions": ["What is the number?"]}


def _verdicts(body: bytes) -> Iterator[dict[str, object]]:
    for unit in _UNIT.findall(body):
        yield {"id": int(unit), "why": "as it says", "verdict": "yes"}


if __name__ == "__main__":
    main()
