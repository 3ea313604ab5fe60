"""wirebroker's own client: connections to brokers, if necessary with TLS and SASL, and the file with the client's settings."""
