"""Finds logs: directories of brokers, their replicas, remote file systems."""
