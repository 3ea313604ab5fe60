"""Where a partition's batches are kept. A store keeps bytes and finds them again; it decides nothing."""
