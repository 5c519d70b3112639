"""Rows that are in parts, on this machine or on others: the ordinary models from sums over the parts.

`chunk` is what a worker knows, `engine` how it is asked, `tree` how answers are added up. `problem` is what solvers see
of it; `block` is a solver that needs more than that; `rows` is what the chain through a fit asks for. Nothing here
knows which cluster it runs on: `polyfm.dask` brings an engine.
"""
