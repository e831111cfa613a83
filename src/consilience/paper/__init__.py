"""The reproduction: every table and figure of the paper, from our own runs; one file each."""
