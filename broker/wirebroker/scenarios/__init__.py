"""Named misfortunes: what befalls a client, what a good one does, and what this one did.

files/      one TOML file per scenario: the broker, its faults, the workload, and the end that is expected
scenario    what such a file says, and errors that point at what it says wrongly
setup       a broker as a scenario wants it
workload    the application, which does the steps; raw is what others do to its topic
play        one run: a broker, the faults, the workload, and what was seen of it
journal     what the application meant to send, and what it was told
outcome     what a run came to, counted from the log and from the journal
watch       what went over the wire, with the records named
show        a run in words
"""
