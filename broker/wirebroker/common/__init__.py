"""What every floor needs and what needs nothing of them: turns in long work, the name that was probably meant."""
