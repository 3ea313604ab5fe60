"""What belongs to one request: the connection, the client and its rights, and the request's facts, errors and effects. A proxy
uses most of this package, too.
"""
