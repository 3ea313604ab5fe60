"""The kinds of faults. Each kind is one class. The annotations of this class are the options of the fault, and its methods
carry out the fault.

To add a kind, add a class to one of these modules, and add its name to the module's `__all__`. A new module must be imported in
`wirebroker.faults`. Users call the class like a function (`faults.delay(200)`), so it is named like a function.
"""
