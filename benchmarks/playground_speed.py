"""Time the playground's response to a drag, with sequential HTTP requests.

python -m benchmarks.playground_speed runs/quick
"""

import json
import os
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import uvicorn

from cooptions.playground.library import Library
from cooptions.playground.server import make_app

REQUESTS = 200


def main(path: Path) -> None:
    library = Library.of([path])
    scene = library.scene(0)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(library, "token"), log_level="warning", access_log=False))
    threading.Thread(target=lambda: server.run(sockets=[sock]), daemon=True).start()
    address = f"http://127.0.0.1:{sock.getsockname()[1]}/token/api/look"
    states = scene.board.random_states(REQUESTS, np.random.default_rng(0))
    seconds = []
    while not server.started:
        time.sleep(0.05)
    for number, joint in enumerate(states.tolist()):
        body = json.dumps({"subject": 0, "agent": number % scene.env.num_agents, "states": joint}).encode()
        begun = time.perf_counter()
        urllib.request.urlopen(urllib.request.Request(address, body, method="POST")).read()
        seconds.append(time.perf_counter() - begun)
    median, high = np.percentile(seconds, [50, 95]) * 1e3
    load = os.getloadavg()[0]
    print(f"{path}: median {median:.1f} ms, 95th percentile {high:.1f} ms of {REQUESTS} requests; load {load:.1f}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(Path(name))
