"""The kinds of faults. Each kind is one class: its annotations are its options, and its methods are its acts.

To add a kind, add a class to one of these modules and its name to the module's `__all__`; or add a module, and import it in
`wirebroker.faults`. Users call the class like a function (`faults.delay(200)`), so its name looks like a function's name.
"""
