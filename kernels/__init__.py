"""The kernel library: each overlapped kernel once, written against ``tdsim.lang`` only."""
