"""The kinds of faults. Each kind is one class. The annotations of the class are the options of the fault, and its methods carry
out the fault.

To add a kind, add a class to one of these modules and its name to the module's `__all__`; or add a module, and import it in
`wirebroker.faults`. Users call the class like a function (`faults.delay(200)`), so its name looks like a function's name.
"""
