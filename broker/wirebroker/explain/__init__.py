"""What is wrong in a trace: a detector for each kind of finding, folded over the rows in one pass and in bounded memory."""
