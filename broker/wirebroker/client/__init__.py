"""One client of ours: a connection to a broker, also to a secured cluster: TLS, SASL, and the file that describes them."""
