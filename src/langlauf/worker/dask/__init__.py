"""Chunks on a Dask cluster: sent by name and as JSON, computed in processes that can be ended, stopped when unwanted.

`executor`, `connection` and `renewing` are the worker's side; `runner`, `station` and `lease` run in Dask workers.
"""
