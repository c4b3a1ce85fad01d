"""Real OpenAI-compatible servers of small models, each in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

START_SECONDS = 180


@contextmanager
def llama_cpp(gguf, log):
    """Serve a GGUF file with llama.cpp's own server: enforces schemas, 2048 tokens a slot."""
    script = Path(__file__).with_name("serve_gguf.py")
    with _running([sys.executable, str(script), str(gguf)], log) as url:
        yield url


@contextmanager
def transformers_serve(folder, log):
    """Serve a model folder with ``transformers serve``: takes response_format and ignores it."""
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    command += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port"]
    with _running(command, log) as url:
        yield url


@contextmanager
def _running(command, log):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    with open(log, "wb") as output:
        server = subprocess.Popen(
            [*command, str(port)], stdout=output, stderr=output, env=environment
        )
    try:
        _wait(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            # It waits for answers nobody reads any more.
            server.kill()
            server.wait()


def _wait(server, health, log):
    for _ in range(START_SECONDS * 10):
        try:
            if httpx.get(health).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if server.poll() is not None:
            break
        time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"the server does not answer (exit code {server.poll()}): {said}")
