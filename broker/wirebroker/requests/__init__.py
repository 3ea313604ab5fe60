"""One request: its connection, who sends it, what it may do, its facts, its errors, its effects. A proxy has most of it too."""
