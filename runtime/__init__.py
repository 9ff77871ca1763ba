"""What generated jobs import. At this level are the modules of a batch job: `events`, `pattern`, `ssc`, and `job`, its
front door.

    kernels     finds matches: rows, state bits and integers, and nothing else
    operator    around a kernel, in a worker: sorted rows of Arrow in, matches out
    stream      the modules of a streaming job
    io          events on the way in, matches on the way out
"""
