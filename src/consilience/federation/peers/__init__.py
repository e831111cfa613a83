"""Between organisations: one process each, no server, mutual TLS through Eclipse Zenoh."""
