"""Named failures. A scenario describes the failure, and how a good client handles it. A run shows how one client
handles it.

files/      one TOML file for each scenario: the broker, its faults, the workload, the expected outcome
scenario    the contents of a file, as objects
reading     the files' form and their errors
setup       the broker of a scenario
workload    the application, which does the steps; `raw` sends other applications' requests
play        one run: broker, faults, workload, result
journal     the records that were sent, and their outcomes
outcome     the outcome of a run, counted from the log and the journal
watch       the requests of a run, with the names of their records
show        a run in words
"""
