"""Chunks on a Dask cluster: sent by name and as JSON, computed in processes that end when their task is released.

`executor` and the sender in `heartbeat` run in the worker; `chunk_server` and the monitor run in Dask workers.
"""
