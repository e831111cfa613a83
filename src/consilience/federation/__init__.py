"""Organisations as sites: the federation file, keys, membership, a trial on one machine, and how peers talk."""
