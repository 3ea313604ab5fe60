"""The facts of a request, and error answers made from it. Both a broker and a proxy can use them."""
