"""How clients of ours reach a secured cluster: TLS, SASL, and the file that describes them."""
