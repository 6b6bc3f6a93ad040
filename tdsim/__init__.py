"""tdsim: design, check and predict overlapped multi-GPU kernels without GPUs.

Kernels and programs are written against :mod:`tdsim.lang`. What the command line offers is
also here, typed::

    from tdsim.check import check
    from tdsim.predict import predict, scale
    from tdsim.topology import machine

    row = predict("ag_gemm", topology="h800x8", shape={"M": 8192, "N": 28672, "K": 8192})
    print(row.speedup, row.bound_by)

``import tdsim`` alone imports nothing.
"""
