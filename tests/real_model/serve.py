"""``python serve.py WEIGHTS PORT WINDOW``: llama.cpp's own server. Runs in the model's own environment."""

import signal
import sys

import xllamacpp

weights, port, window = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
parameters = xllamacpp.CommonParams()
parameters.model.path = weights
parameters.port = port
parameters.n_ctx = window
parameters.n_parallel = 1
parameters.n_gpu_layers = 0
# One thread writes faster than two on a machine that is busy.
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 2
# A call that was cancelled ends between two batches.
parameters.n_batch = parameters.n_ubatch = 256
parameters.endpoint_slots = True
server = xllamacpp.Server(parameters)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
signal.pause()
