"""Starting and ending the PEs of a job, without a GPU library in this process.

``backend`` is the entry point. A job lives in a folder (``job``): the launcher writes what is
asked, PEs write what they found (``wait``, ``failures``), and everything is removed at the end.
Two processes share the work so that no ending leaves anything behind: the launcher starts
(``mps``, ``processes``), and a watchdog in a session of its own takes down (``watchdog``,
``leftovers``) as soon as the launcher says so or is gone.
"""
