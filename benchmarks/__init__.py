"""How fast it is. `make bench` runs all of it and writes docs/results/speed.md; `... trust` one part."""
