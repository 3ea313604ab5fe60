"""The control: the functions of MockKafka over HTTP, for tests in any language.

    table       all endpoints, in one table
    endpoints/  their handlers, and the forms of requests and responses
    forms       msgspec structs from JSON, to JSON, and as JSON schemas
    app         finds and calls the handler of a request; every error is a problem document (RFC 9457)
    openapi, page   descriptions of the table, for tools and for people
    server      the listener, on the broker's own event loop

Only this package needs Starlette and uvicorn (the extra `control`). Other packages import this package only if a control is
requested.
"""
