"""Machine files that the tests of YAML machines start from."""

BASE = "base: h800\ngpus_per_node: 8\n"
RING = """
base: h100
gpus_per_node: 3
collective: {scale_up: 50 GB/s, scale_out: 50 GB/s}
links:
  - {from: gpu0, to: gpu1, kind: nvlink, bandwidth: 50 GB/s, latency: 700 ns}
"""
FULL = """
gpus_per_node: 2
gpu:
  name: own
  num_sms: 100
  flops: {bf16: 500 TFLOP/s, fp16: 500 TFLOP/s, fp32: 250 TFLOP/s}
  mma_efficiency: 0.8
  hbm: 2 TB/s
  hbm_bytes: 64 GiB
  l2: 5 TB/s
  l2_bytes: 40 MB
  sm_copy: 40 GB/s
  copy_engines: 2
  copy_engine: 200 GB/s
  local_copy: 80 GB/s
nvlink: {bandwidth: 100 GB/s, latency: 300 ns}
collective: {scale_up: 90 GB/s, scale_out: 20 GB/s}
"""
WIRE = "kind: nvlink, bandwidth: 50 GB/s, latency: 700 ns"


def links_of(*entries):
    """A file of 3 GPUs with these links, each a flow mapping without its braces."""
    lines = "".join(f"  - {{{entry}}}\n" for entry in entries)
    return RING.split("links:")[0] + "links:\n" + lines


def write(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return str(path)
