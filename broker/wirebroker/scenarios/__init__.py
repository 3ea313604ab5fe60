"""Named misfortunes: what befalls a client, what a good one does, and what this one did.

files/      one TOML file per scenario: the broker, its faults, the workload, and the end that is expected
scenario    what such a file says, and errors that point at what it says wrongly
drivers/    how each client library is driven: the same few calls, with short timeouts
play        one run: a broker, the faults, the workload step by step, and what was seen of it
outcome     what a run came to, counted from the log and from what the client told the application
show        a run in words
"""
