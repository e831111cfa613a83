"""The driver of a run: goes through the rounds of any method, records and saves them, and tells of them."""
