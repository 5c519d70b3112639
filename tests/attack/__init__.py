"""Attacks on the whole of polyfm, for as long as one likes: `python tests/attack --minutes 10`."""
