"""Named failures. A scenario describes what the broker does and what a good client does. A run shows what one client does.

files/      one TOML file for each scenario: the broker, its faults, the workload, the expected outcome
scenario    what a file describes
reading     the files' form and their errors
setup       the broker of a scenario
workload    the application, which does the steps; `raw` sends the requests of other applications
play        one run: broker, faults, workload, result
journal     the records that were sent, and their outcomes
outcome     the outcome of a run, counted from the log and the journal
watch       the requests of a run, with the names of their records
show        a run in words
"""
