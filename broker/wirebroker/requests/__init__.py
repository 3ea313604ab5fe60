"""Requests as such: what they are about, and error answers made from them. A broker and a proxy can both use it."""
