"""Many runs with one fault each: which fault breaks an application?

cases        a table of cases, played at once by workers, with results as JSON lines
workers      threads, processes, or the executors of a Spark cluster
errors       the errors that Kafka returns for each API
misfortunes  makes cases from the requests of a run without faults
application  one run: a broker of its own, a fault, the user's command
attached     the control of a run's broker, for tests whose library attaches to it
upstream     a real cluster in place of a run's own broker: what a run left there
outcomes     what a run did to the records, compared with the run without faults or with a journal
order        the order of the cases: the likely culprits come first
findings     runs that broke for the same reason, with the usual cause
dialogues    the requests that followed a fault, and which of them a second fault can match
exploration  the plain runs, the cases, what the first results add, and the summary
show         the terminal
report       fault files, tests, the page, JUnit and SARIF
reproductions  tests in the languages of clients/
words        the words for faults, and for the ways in which an application breaks
survival     one case as a test
in_pytest    a test that is run once for each fault
"""
