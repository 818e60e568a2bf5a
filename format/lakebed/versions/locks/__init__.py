"""The right to write a branch: lock files in the layout of 3.x, leases, fencing.

Locks between the threads and processes of one machine are in `lakebed.storage.lock`.
"""
