"""How long a lecturer's move takes to reach everyone: run by hand, `python benchmarks/follow.py --keep`.

It serves the app as a person would, in a process of its own, and connects 300 followers to one session from this one, over
sockets of the loopback interface: so clients and server share the machine's cores, and a network's own delay is not in it. A
move is timed from just before the lecturer's POST until each follower has read the event with its number.

A machine that is busy with other work measures that work. On Linux `chrt -r 10 python benchmarks/follow.py` runs the server and
the clients ahead of everything else, as if they had the machine to themselves; the result says which it was, and the load.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("results")
NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)
QUIET_SECONDS = 0.3  # between moves, as a fast lecturer would press
PATIENCE_SECONDS = 10.0


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """The app in a process of its own: (host, port)."""
    command = [sys.executable, "-m", "flashstep", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://([\d.]+):(\d+)", server.stdout.readline())
            assert found, "the server printed no address"
            yield found[1], int(found[2])
        finally:
            server.terminate()


def ask(connection: http.client.HTTPConnection, path: str, body: dict[str, Any], key: str = "") -> Any:
    """POST a JSON body; the answer's JSON."""
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Follow-Key": key})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status in (200, 201), text
    return json.loads(text)


async def follow(host: str, port: int, code: str, arrived: dict[int, list[float]], ready: asyncio.Semaphore) -> None:
    """One follower: notes when each numbered event has come."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET /api/follow/{code}/events HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n".encode())
    await writer.drain()
    ready.release()
    try:
        while chunk := await reader.read(65536):
            now = time.perf_counter()
            for number in NUMBER.findall(chunk):
                arrived.setdefault(int(number), []).append(now)
    finally:
        writer.close()


async def measure(host: str, port: int, followers: int, moves: int) -> dict[str, Any]:
    """Latencies in milliseconds over all moves and all followers."""
    lecturer = http.client.HTTPConnection(host, port)
    session = ask(lecturer, "/api/follow", {})
    code, key = session["code"], session["key"]
    place = {
        "kernel": "flash-attention-2", "query": "", "position": 0, "order": "serial", "focus": 0, "cell": None, "card": "step",
        "question": None, "blank": False,
    }  # fmt: skip
    arrived: dict[int, list[float]] = {}
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(follow(host, port, code, arrived, ready)) for _ in range(followers)]
    for _ in tasks:
        await ready.acquire()

    async def move(position: int) -> tuple[float, list[float]]:
        began = time.perf_counter()
        said = await asyncio.to_thread(ask, lecturer, f"/api/follow/{code}", {**place, "position": position}, key)
        answered = time.perf_counter() - began
        deadline = began + PATIENCE_SECONDS
        while len(arrived.get(said["sequence"], [])) < followers and time.perf_counter() < deadline:
            await asyncio.sleep(0.005)
        return answered, [now - began for now in arrived.get(said["sequence"], [])]

    for position in range(3):  # connections and code paths are warm
        await move(position)
        await asyncio.sleep(QUIET_SECONDS)
    load = os.getloadavg()[0]
    answers, latencies, lost, last = [], [], 0, []
    for position in range(moves):
        answered, times = await move(position)
        answers.append(1000 * answered)
        latencies += [1000 * one for one in times]
        last.append(1000 * max(times, default=0))
        lost += followers - len(times)
        await asyncio.sleep(QUIET_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        "followers": followers,
        "moves": moves,
        "lost": lost,
        "p50_ms": round(cuts[49], 1),
        "p95_ms": round(cuts[94], 1),
        "p99_ms": round(cuts[98], 1),
        "max_ms": round(max(latencies), 1),
        "last_follower_median_ms": round(statistics.median(last), 1),
        "post_median_ms": round(statistics.median(answers), 1),
        "priority": priority(),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }


def priority() -> str:
    """Whether this process, and the server that it starts, run ahead of others."""
    ahead = hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO)
    return "real time" if ahead else "usual"


def main() -> int:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--followers", type=int, default=300)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--keep", action="store_true", help="add the result to benchmarks/results")
    asked = parser.parse_args()
    with served() as (host, port):
        found = asyncio.run(measure(host, port, asked.followers, asked.moves))
    machine = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    result = {"date": date.today().isoformat(), "machine": machine, "latency": found}
    print(json.dumps(result, indent=2))
    if asked.keep:
        path = RESULTS / f"follow-{result['date']}.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else []
        path.write_text(json.dumps([*kept, result], indent=2) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
