"""Who talks to whom: the consensus loop, the exchange, what is recorded and saved."""
