"""A query on a stream: Spark brings the events of a bucket of keys together, and a bucket finds what is due.

    events ─► watch ─► relevant events ─► pack ─► transformWithState, a bucket of keys at a time ─► unpack ─► matches
              watch.py                    cells.py   bucket.py, in worker.py                        cells.py   sink.py

Rows travel between these as Arrow in binary cells: types stay exact, and nothing is paid per row. The state of a bucket
is such a cell, too. (One state per key cost 15 times as much at 10,000 keys.) The number of buckets is therefore fixed
for the life of a checkpoint. A generated job imports `watch`, `ssc` and `job`, its front door.
"""
