"""The control: what Python tests do with MockKafka, over HTTP, for tests in any language.

    table       every endpoint, in one table
    endpoints/  what they do, and the form of what they take and give
    forms       dataclasses to JSON, from JSON, and as JSON schemas
    app         one request on its way through the table; every error as problem details (RFC 9457)
    openapi, page   the table described, for tools and for people
    server      it listens on the broker's own event loop

Only this package needs Starlette and uvicorn (the extra `control`), and it is imported when a control is asked for.
"""
