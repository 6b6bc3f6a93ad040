"""What one PE runs: symmetric heap, host programs on CUDA streams, data and times."""
