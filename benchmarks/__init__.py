"""Benchmarks: the product, what the machine allows and other tools, side by side in one run (``make bench``)."""
