"""Starting and ending the PEs of a job: processes, MPS, doctor."""
