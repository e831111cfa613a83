"""How fast it is. `make bench` runs all of it and writes docs/benchmarks.md; `python -m benchmarks trust` one part."""
