"""Backend 2: kernels on real GPUs, through stock Triton and NVSHMEM.

``lowering`` makes machine code of kernels without a GPU, ``runtime`` is what one PE runs, and
``launcher`` starts and ends the PEs of a job. Importing this package imports none of Triton,
torch and NVSHMEM; what needs them imports them.
"""
