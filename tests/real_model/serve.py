"""``python serve.py WEIGHTS PORT WINDOW LONGEST``: llama.cpp's own server. Runs in the model's own environment.

It ends each reply after ``LONGEST`` tokens; -1: it has no limit of its own.
"""

import signal
import sys

import xllamacpp

weights, (port, window, longest) = sys.argv[1], map(int, sys.argv[2:])
parameters = xllamacpp.CommonParams()
parameters.model.path = weights
parameters.port = port
parameters.n_ctx = window
parameters.n_predict = longest
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
