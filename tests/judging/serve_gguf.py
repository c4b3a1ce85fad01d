"""Serve a GGUF file on the loopback interface: ``python serve_gguf.py FILE PORT``."""

import signal
import sys


def main(path, port):
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = path
    options.model_alias = {"smol"}
    # Shared by the slots: 2048 tokens each.
    options.n_ctx = 8192
    options.n_parallel = 4
    # One thread: several wait for each other by spinning, which on a busy machine takes minutes.
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    options.hostnames = ["127.0.0.1"]
    options.port = port
    options.ui = False
    server = xllamacpp.Server(options)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
