"""wirebroker's own client: connections to brokers, with TLS and SASL if needed, and the settings file that describes them."""
