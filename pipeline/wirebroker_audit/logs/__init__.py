"""Where logs are: directories of brokers, their replicas, remote file systems."""
