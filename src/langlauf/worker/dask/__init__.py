"""Chunks on a Dask cluster: sent by name and as JSON, computed in processes that end when their task is released.

`executor` and the sender of heartbeats run in the worker; the rest of `chunk_server` runs in Dask workers.
"""
