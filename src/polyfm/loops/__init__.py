"""Everything that numba compiles, and nothing else. The disk cache of compiled loops is stamped with these files."""
