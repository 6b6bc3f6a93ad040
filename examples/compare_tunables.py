"""Predict one problem under several tunables with the Python interface."""

from tdsim.predict import predict

shape = {"M": 8192, "N": 28672, "K": 8192}
for comm in ("pull", "push", "sm"):
    row = predict("ag_gemm", topology="h800x8", shape=shape, tunables={"comm": comm})
    print(f"{comm:5}{row.time_us:8.1f} us  {row.speedup:.2f}x  bound by {row.bound_by}")
